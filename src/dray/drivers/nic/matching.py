"""Which of the interfaces of a namespace is the one that left the host."""

from __future__ import annotations

from collections.abc import Iterable

from dray.drivers.nic.attachment import Attachment
from dray.drivers.nic.links import Link
from dray.drivers.nic.snapshot import Snapshot


def on_host(links: Iterable[Link], attachment: Attachment) -> Link | None:
    """Before it leaves: by what the device was made of."""
    nic = attachment.nic
    possible = [link for link in links if not (nic.pci_bus_id and link.parent) or link.parent == nic.pci_bus_id]
    candidates = [link for link in possible if link.mac == nic.mac or link.name == nic.interface]
    named = [candidate for candidate in candidates if candidate.name == nic.interface]
    return next(iter(named or candidates), None)


def has_stayed(links: Iterable[Link], snapshot: Snapshot) -> bool:
    """Whether it has not left the host: then whatever in the pod has the name that it was to have is the pod's own."""
    was = snapshot.link
    return any((link.index, link.kind, link.mac) == (was.index, was.kind, was.mac) for link in links)


def came_back(links: Iterable[Link], snapshot: Snapshot, config_mac: str | None) -> Link | None:
    """On the host again, whatever the kernel calls it now; nothing that merely has its name."""
    return _best(links, snapshot, config_mac, name=snapshot.link.name, name_is_enough=False)


def in_pod(links: Iterable[Link], attachment: Attachment, name: str) -> Link | None:
    """A pod that may change its network may have given it another name or another hardware address."""
    if attachment.snapshot is None:
        return None
    mac = attachment.config.interface.hardware_addr
    return _best(links, attachment.snapshot, mac, name=name, name_is_enough=True)


def _best(
    links: Iterable[Link], snapshot: Snapshot, config_mac: str | None, *, name: str, name_is_enough: bool
) -> Link | None:
    was = snapshot.link
    macs = {was.mac, was.permanent_mac, (config_mac or "").lower().replace("-", ":")} - {""}
    scored = []
    for link in links:
        if link.kind != was.kind or link.is_loopback or (was.parent and link.parent != was.parent):
            continue
        same_mac = link.mac in macs or bool(link.permanent_mac and link.permanent_mac == was.permanent_mac)
        same_name = link.name == name
        if same_mac or (same_name and name_is_enough):
            scored.append((same_mac, same_name, link.index == was.index, link))
    return max(scored, key=lambda each: each[:3])[3] if scored else None
