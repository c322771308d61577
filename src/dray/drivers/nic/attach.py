"""Moves an interface into the network of a pod, and gives it there what the claim says.

How it is on the host is written down, and the pod's network held, before the first change. Whatever fails, the
interface is brought back. An interface that is there already stays; one that is in another network, as of a sandbox
that was made anew, is brought back first. The calling thread is in the network of the host.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.drivers.nic import dhcp, ebpf, ethtool, matching, offload_sizes, rdma, sysctls
from dray.drivers.nic.additions import add_address, add_neighbor, add_route, add_rule
from dray.drivers.nic.attachment import Attachment, AttachmentError, Attachments, InPod
from dray.drivers.nic.config import Interface, NetworkConfig
from dray.drivers.nic.links import (
    Address,
    Link,
    default_route_links,
    naming,
    netlink,
    read_addresses,
    read_links,
)
from dray.drivers.nic.restore import restore
from dray.drivers.nic.snapshot import completed, take
from dray.node import network_namespaces

# IFA_F_NODAD of the kernel.
_NO_DETECTION: Final = 0x02


def attach(attachments: Attachments, device: str, claim_uid: str, namespace: str) -> Attachment:
    """Raises AttachmentError, which the pod's events tell of."""
    with attachments.locked(device):
        attachment = attachments.read(device)
        if attachment is None or attachment.claim_uid != claim_uid:
            raise AttachmentError(f"device {device} is not prepared for claim {claim_uid}, or not any more")
        number = _checked_network(attachment, namespace)
        if attachment.phase == "attached" and attachment.namespace == number and _is_there(attachments, attachment):
            return attachment
        attachment = restore(attachments, attachment)
        try:
            return _attach(attachments, attachment, namespace, number)
        except Exception as error:
            current = attachments.read(device) or attachment
            planned = restore(attachments, current)
            problem = f"device {device} ({attachment.nic.interface or attachment.nic.rdma_device}): {error}"
            attachments.write(msgspec.structs.replace(planned, problem=problem))
            raise AttachmentError(problem) from error


def _checked_network(attachment: Attachment, namespace: str) -> int:
    if network_namespaces.number() != attachment.host_network:
        raise AttachmentError(
            "this runtime is in another network than the driver dra.net: run both in that of the host"
        )
    number = network_namespaces.number(namespace)
    if number == attachment.host_network:
        raise AttachmentError(
            f"device {attachment.device}: a pod with the network of the host (hostNetwork) cannot have an interface "
            "of its own"
        )
    return number


def _is_there(attachments: Attachments, attachment: Attachment) -> bool:
    held = attachments.held_namespace(attachment.device)
    if not attachment.nic.interface:
        return network_namespaces.holds(held)
    inside = attachment.in_pod.interface if attachment.in_pod else ""

    def look() -> bool:
        with netlink() as connection:
            return matching.in_pod(read_links(connection), attachment, inside) is not None

    return network_namespaces.holds(held) and network_namespaces.run_in(held, look)


def _attach(attachments: Attachments, planned: Attachment, namespace: str, number: int) -> Attachment:
    held = attachments.held_namespace(planned.device)
    moves_rdma = bool(planned.nic.rdma_device) and rdma.is_exclusive()
    moving = msgspec.structs.replace(
        planned, phase="moving", namespace=number, moves_rdma=moves_rdma, problem="", in_pod=None
    )
    network_namespaces.hold(namespace, held)
    in_pod = InPod()
    if planned.nic.interface:
        moving, config, link = _begin(attachments, moving)
        _move(link, config.interface, held)
        in_pod = network_namespaces.run_in(held, lambda: _configure(link, moving, config))
    elif moves_rdma:
        attachments.write(moving)
    if moves_rdma:
        with open(held) as target:
            rdma.move(planned.nic.rdma_device, target.fileno())
    in_pod = msgspec.structs.replace(in_pod, rdma_moved=moves_rdma)
    return attachments.write(msgspec.structs.replace(moving, phase="attached", in_pod=in_pod))


def _begin(attachments: Attachments, moving: Attachment) -> tuple[Attachment, NetworkConfig, Link]:
    """Writes down how it is, before anything is changed."""
    with netlink() as connection:
        link = matching.on_host(read_links(connection), moving)
        if link is None:
            raise AttachmentError("the interface is not on the host")
        if link.master or link.index in default_route_links(connection):
            raise AttachmentError(
                "the machine uses the interface by now, for a default route or as part of another one"
            )
        snapshot = take(connection, link, moving.config)
    written = attachments.write(msgspec.structs.replace(moving, snapshot=snapshot))
    return written, completed(moving.config, snapshot), link


def _move(link: Link, wanted: Interface, held: Path) -> None:
    def names() -> set[str]:
        with netlink() as connection:
            return {present.name for present in read_links(connection)}

    if wanted.name in network_namespaces.run_in(held, names):
        raise AttachmentError(f"the pod has an interface {wanted.name} already: give another interface.name")
    with netlink() as connection, open(held) as target:
        # It can be renamed only while it is down.
        connection.link("set", index=link.index, state="down")
        connection.link("set", index=link.index, net_ns_fd=target.fileno(), ifname=wanted.name)


def _configure(moved: Link, attachment: Attachment, config: NetworkConfig) -> InPod:
    """In the network of the pod."""
    wanted = config.interface
    with netlink() as connection:
        link = matching.in_pod(read_links(connection), attachment, wanted.name)
        if link is None:
            raise AttachmentError(f"interface {moved.name} is not in the pod after it was moved")
        _set_link(connection, link, config)
        _set_sysctls(wanted)
        sources = {str(ip_address(route.source)) for route in config.routes if route.source}
        addresses = [_address(address, sources) for address in wanted.addresses]
        for address in addresses:
            add_address(connection, link.index, address)
        connection.link("set", index=link.index, state="up")
        if wanted.dhcp:
            lease = dhcp.request(wanted.name)
            addresses.append(lease.address)
            add_address(connection, link.index, lease.address)
            config = msgspec.structs.replace(config, routes=(*config.routes, *lease.routes))
        _route(connection, link.index, config)
        given = read_addresses(connection, link.index).get(link.index, ())
        present = {str(address) for address in given}
        (now,) = [each for each in read_links(connection) if each.index == link.index]
        told = tuple(str(address) for address in addresses if str(address) in present)
    return InPod(interface=now.name, addresses=told, mac=now.mac)


def _set_link(connection: Any, link: Link, config: NetworkConfig) -> None:
    wanted = config.interface
    if wanted.hardware_addr is not None:
        with naming(f"interface.hardwareAddr {wanted.hardware_addr}"):
            connection.link("set", index=link.index, address=wanted.hardware_addr.lower().replace("-", ":"))
    if wanted.mtu is not None:
        with naming(f"interface.mtu {wanted.mtu}"):
            connection.link("set", index=link.index, mtu=wanted.mtu)
    offload_sizes.set_sizes(link.index, wanted.sizes())
    if config.ethtool is not None:
        ethtool.set_features(link.name, ethtool.features(link.name, config.ethtool.features))
        ethtool.set_private_flags(link.name, config.ethtool.private_flags)
    if wanted.disable_ebpf_programs:
        ebpf.detach_all(connection, link.index)


def _set_sysctls(wanted: Interface) -> None:
    values: list[tuple[str, str, int]] = []
    if wanted.arp_ignore is not None:
        values.append(("ipv4", "arp_ignore", wanted.arp_ignore))
    if wanted.arp_announce is not None:
        values.append(("ipv4", "arp_announce", wanted.arp_announce))
    if wanted.forwarding:
        values += [("ipv4", "forwarding", 1), ("ipv6", "forwarding", 1)]
    for family, name, value in values:
        path = sysctls.path_of(family, wanted.name, name)
        if family == "ipv6" and not path.exists():
            # A kernel without IPv6.
            continue
        path.write_text(f"{value}\n")


def _route(connection: Any, index: int, config: NetworkConfig) -> None:
    table = 0
    if config.interface.vrf is not None:
        table = config.interface.vrf.routing_table()
        _join_vrf(connection, index, config.interface.vrf.name, table)
    for route in sorted(config.routes, key=lambda each: -each.scope):
        # Within a VRF all routes are in its table.
        add_route(connection, index, msgspec.structs.replace(route, table=table) if table else route)
    if not table:
        for rule in config.rules:
            add_rule(connection, rule)
    for neighbor in config.neighbors:
        add_neighbor(connection, index, neighbor)


def _join_vrf(connection: Any, index: int, name: str, table: int) -> None:
    """A VRF that other interfaces of the pod are in is joined."""
    found = [link for link in read_links(connection) if link.name == name]
    if not found:
        with naming(f"interface.vrf {name}"):
            connection.link("add", ifname=name, kind="vrf", vrf_table=table)
        found = [link for link in read_links(connection) if link.name == name]
    connection.link("set", index=found[0].index, state="up")
    connection.link("set", index=index, master=found[0].index)
    for protocol in ("tcp", "udp"):
        path = sysctls.ROOT / f"ipv4/{protocol}_l3mdev_accept"
        if path.exists():
            path.write_text("1\n")


def _address(text: str, sources: Collection[str]) -> Address:
    """`sources` are addresses that routes send from: the kernel takes such a route once the address is known to be
    nobody else's, which takes seconds with IPv6 and never ends without a carrier. So these are not looked for."""
    address, _, prefix = text.partition("/")
    is_source = ":" in address and str(ip_address(address)) in sources
    return Address(address, int(prefix), flags=_NO_DETECTION if is_source else 0)


def namespace_of(state: dict[str, Any]) -> str:
    """The network of a container, by the state that an OCI runtime hands to hooks."""
    pid = int(state.get("pid") or 0)
    if pid:
        return f"/proc/{pid}/ns/net"
    bundle = str(state.get("bundle") or "")
    try:
        config = msgspec.json.decode(Path(bundle, "config.json").read_bytes())
        spaces = config["linux"]["namespaces"]
    except (OSError, msgspec.DecodeError, KeyError, TypeError) as error:
        raise AttachmentError(f"the runtime names neither a process nor a bundle ({error})") from error
    found = next((str(space.get("path") or "") for space in spaces if space.get("type") == "network"), "")
    if not found or not os.path.exists(found):
        raise AttachmentError("the runtime names no network of the pod")
    return found
