"""Brings an interface back from the network of a pod, and makes it what it was on the host.

It may be called at any moment of a move, and again: what is there already is left alone. The interface is looked for
where the pod's network is held, and then on the host, where the kernel leaves what is no virtual interface when a
network ends. The calling thread is in the network of the host.
"""

from __future__ import annotations

import hashlib
import logging
import os
from errno import EHOSTUNREACH, ENETDOWN, ENETUNREACH
from pathlib import Path
from typing import Any

import msgspec

from dray.drivers.nic import ethtool, matching, offload_sizes, rdma
from dray.drivers.nic.additions import add_address, add_neighbor, add_route
from dray.drivers.nic.attachment import Attachment, AttachmentError, Attachments
from dray.drivers.nic.links import Link, NetlinkFailed, find_link, netlink, read_addresses, read_links
from dray.drivers.nic.snapshot import Snapshot
from dray.drivers.nic.sysctls import write_sysctls
from dray.node import network_namespaces

_logger = logging.getLogger(__name__)


def restore(attachments: Attachments, attachment: Attachment) -> Attachment:
    """Brings the interface back to the host and restores its settings. Call with the lock of the device held. Returns
    the
    attachment in phase `planned`. Raises AttachmentError."""
    if attachment.phase != "planned":
        held = attachments.held_namespace(attachment.device)
        if network_namespaces.holds(held):
            _bring_back_rdma(attachment, held)
            _bring_back(attachment, held)
        try:
            _repair(attachment)
        except (NetlinkFailed, ethtool.EthtoolFailed, OSError) as error:
            raise AttachmentError(
                f"interface {attachment.nic.interface} is back, but not as it was: {error}"
            ) from error
    planned = msgspec.structs.replace(
        attachment, phase="planned", snapshot=None, namespace=0, in_pod=None, moves_rdma=False
    )
    attachments.write(planned)
    network_namespaces.let_go(attachments.held_namespace(attachment.device))
    return planned


def _bring_back_rdma(attachment: Attachment, held: Path) -> None:
    if not attachment.moves_rdma:
        return
    host = os.open(network_namespaces.OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        network_namespaces.run_in(held, lambda: rdma.move(attachment.nic.rdma_device, host))
    except (NetlinkFailed, OSError) as error:
        raise AttachmentError(f"RDMA device {attachment.nic.rdma_device} does not come back: {error}") from error
    finally:
        os.close(host)


def _bring_back(attachment: Attachment, held: Path) -> None:
    snapshot = attachment.snapshot
    if snapshot is None:
        return
    with netlink() as connection:
        links = read_links(connection)
    if matching.has_stayed(links, snapshot):
        return
    taken = {link.name for link in links}
    name = snapshot.link.name if snapshot.link.name not in taken else _spare_name(attachment.device)
    host = os.open(network_namespaces.OWN, os.O_RDONLY | os.O_CLOEXEC)
    inside = attachment.config.interface.name or snapshot.link.name

    def leave() -> None:
        with netlink() as connection:
            found = matching.in_pod(read_links(connection), attachment, inside)
            if found is None:
                return
            connection.link("set", index=found.index, state="down")
            if found.master:
                connection.link("set", index=found.index, master=0)
            connection.link("set", index=found.index, net_ns_fd=host, ifname=name)

    try:
        network_namespaces.run_in(held, leave)
    except (NetlinkFailed, OSError) as error:
        raise AttachmentError(f"interface {snapshot.link.name} does not come back from the pod: {error}") from error
    finally:
        os.close(host)


def _spare_name(device: str) -> str:
    return f"dray{hashlib.sha256(device.encode()).hexdigest()[:8]}"


def _repair(attachment: Attachment) -> None:
    """On the host: name, hardware address, MTU and the rest as they were."""
    snapshot = attachment.snapshot
    if snapshot is None:
        return
    with netlink() as connection:
        links = read_links(connection)
        found = matching.came_back(links, snapshot, attachment.config.interface.hardware_addr)
        if found is None:
            _logger.error(
                "interface %s (device %s) ended with the network of its pod: it cannot be brought back",
                snapshot.link.name,
                attachment.device,
            )
            return
        taken = {link.name for link in links if link.index != found.index}
        _repair_link(connection, found, snapshot, snapshot.link.name not in taken)
        name = _name_of(connection, found.index)
        if name != snapshot.link.name:
            _logger.error("interface %s is back as %s: another one has its name by now", snapshot.link.name, name)
        write_sysctls(name, snapshot.sysctls)
        offload_sizes.set_sizes(found.index, _changed(snapshot.sizes, offload_sizes.read_sizes(found.index)))
        ethtool.set_features(name, _changed(snapshot.features, ethtool.read_features(name, snapshot.features)))
        ethtool.set_private_flags(name, _changed(snapshot.private_flags, ethtool.private_flags(name)))
        connection.link("set", index=found.index, state="up" if snapshot.link.is_up else "down")
        _repair_addresses(connection, found.index, snapshot)


def _name_of(connection: Any, index: int) -> str:
    link = find_link(connection, index)
    return link.name if link is not None else ""


def _changed(was: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in was.items() if now.get(name) != value}


def _repair_link(connection: Any, found: Link, snapshot: Snapshot, name_is_free: bool) -> None:
    was = snapshot.link
    if found.master:
        connection.link("set", index=found.index, master=0)
    renamed = found.name != was.name and name_is_free
    if found.is_up and (renamed or found.mac != was.mac):
        connection.link("set", index=found.index, state="down")
    if renamed:
        connection.link("set", index=found.index, ifname=was.name)
    if found.mac != was.mac and was.mac:
        connection.link("set", index=found.index, address=was.mac)
    if found.mtu != was.mtu:
        connection.link("set", index=found.index, mtu=was.mtu)
    if found.alias != was.alias:
        connection.link("set", index=found.index, ifalias=was.alias)
    if found.queue_length != was.queue_length:
        connection.link("set", index=found.index, txqlen=was.queue_length)


def _repair_addresses(connection: Any, index: int, snapshot: Snapshot) -> None:
    wanted = [address for address in snapshot.addresses if not address.is_by_kernel]
    known = set(map(str, wanted))
    for present in read_addresses(connection, index).get(index, ()):
        # One that the pod had, and the kernel has kept.
        if str(present) not in known and not present.is_by_kernel:
            connection.addr("del", index=index, address=present.address, prefixlen=present.prefix)
    for address in wanted:
        add_address(connection, index, address)
    for route in snapshot.routes if snapshot.link.is_up else ():
        # A gateway that is not reached any more is the host's to care for.
        add_route(connection, index, route, ignored=(ENETUNREACH, EHOSTUNREACH, ENETDOWN))
    for neighbor in snapshot.neighbors:
        add_neighbor(connection, index, neighbor)
