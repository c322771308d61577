"""The screen of `dray top` as lines of text: devices by node, how much of them is used and by whom, and who waits.

Devices of one node, driver and kind stand in one line; those of which a part can be had each have their own, with a
bar. Everything is made from the states of devices and from pods: no terminal is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import wrap
from typing import Final

from dray.allocation.device_states import DeviceState
from dray.answers.views.device_facts import kind, table
from dray.answers.views.device_tables import summary
from dray.answers.views.layout import cell_text
from dray.answers.views.utilization_text import age, mean_utilization
from dray.api.objects import Object, condition_of, is_deleting, key_of, metadata_of, spec_of
from dray.api.pods import is_terminal, node_of
from dray.client.clock import moment

_BAR: Final = 10
_WIDE: Final = 120
_COLUMNS: Final = ("Node", "Driver", "Kind", "Used", "", "Busy", "Held by")


@dataclass(frozen=True, slots=True)
class Waiting:
    pod: str
    since: datetime
    why: str


def screen(states: Sequence[DeviceState], pods: Iterable[Object], now: datetime, width: int = 0) -> list[str]:
    """Reasons go on in the next line where they are wider; 0 is wide enough for everything."""
    groups: dict[object, list[DeviceState]] = {}
    for state in states:
        # A driver may publish devices of several kinds in turn.
        groups.setdefault(_group(state), []).append(state)
    rows = [_row(group, now) for group in groups.values()]
    columns, rows = (_COLUMNS, rows) if not width or width >= _WIDE else _narrow(rows)
    devices = table(columns, rows) or ["no devices"]
    return [summary(list(states)), "", *devices, "", *_waiting(waiting(pods), now, width)]


def _narrow(rows: list[tuple[str, ...]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Leaves out drivers and bars, so that the holders fit."""
    columns = ("Node", "Kind", "Used", "Busy", "Held by")
    return columns, [(node, kind_, used, busy, held) for node, _, kind_, used, _, busy, held in rows]


def _group(state: DeviceState) -> tuple[str, ...]:
    shared = state.place[2] if state.document.get("allowMultipleAllocations") else ""
    return (state.node, *state.place[:2], kind(state.document), shared)


def _row(group: list[DeviceState], now: datetime) -> tuple[str, ...]:
    first = group[0]
    share, used = _use(group)
    holders = ", ".join(_held(group)) or "-"
    odd = [f"{len(found)} {name}" for name in ("tainted", "blocked") if (found := _in(group, name))]
    name = kind(first.document)
    if first.document.get("allowMultipleAllocations"):
        name = f"{name} {first.place[2]}"
    held = ", ".join(filter(None, (holders if holders != "-" or not odd else "", *odd)))
    busy = mean_utilization([device.utilization for device in group], now)
    return first.node or "-", first.place[0], name, used, _bar(share), busy, held


def _in(group: list[DeviceState], state: str) -> list[DeviceState]:
    return [device for device in group if device.state == state]


def _use(group: list[DeviceState]) -> tuple[float, str]:
    """The part that is in use, and the figures: of a shared device its capacity, else the number of devices."""
    if not group[0].document.get("allowMultipleAllocations"):
        taken = sum(bool(device.holders) for device in group)
        return taken / len(group), f"{taken}/{len(group)}"
    shares = [
        (amount.as_float() / max(total.as_float(), 1e-9), f"{amount}/{total} {name}")
        for name, (amount, total) in group[0].used().items()
    ]
    if shares:
        return max(share for share, _ in shares), ", ".join(text for _, text in shares)
    return (1.0, f"{len(group[0].holders)} claims") if group[0].holders else (0.0, "0")


def _bar(share: float) -> str:
    filled = min(_BAR, round(share * _BAR))
    return "█" * filled + "░" * (_BAR - filled)


def _held(group: list[DeviceState]) -> list[str]:
    """Each holder once, by its pods where it has any, with what it has."""
    found: dict[str, list[str]] = {}
    for state in group:
        for holder in state.holders:
            who = ", ".join(holder.pods) or f"claim {holder.claim}"
            amount = ", ".join(f"{amount} {name}" for name, amount in holder.share.items())
            found.setdefault(who, []).append(amount or state.place[2])
    return [f"{who} ({', '.join(what)})" for who, what in found.items()]


def waiting(pods: Iterable[Object]) -> list[Waiting]:
    """Pods that have no node, the longest waiting first."""
    found = []
    for pod in pods:
        if node_of(pod) or is_terminal(pod) or is_deleting(pod):
            continue
        condition = condition_of(pod, "PodScheduled", "False") or {}
        gates = ", ".join(str(gate["name"]) for gate in spec_of(pod).get("schedulingGates") or ())
        why = f"scheduling gates: {gates}" if gates else condition.get("message") or "not tried yet"
        found.append(Waiting("/".join(key_of(pod)), moment(metadata_of(pod)["creationTimestamp"]), str(why)))
    return sorted(found, key=lambda each: each.since)


def _waiting(pods: list[Waiting], now: datetime, width: int) -> list[str]:
    if not pods:
        return ["no pod waits"]
    room = max(30, width - max(len(pod.pod) for pod in pods) - 9) if width else 0
    rows: list[tuple[str, str, str]] = []
    for pod in pods:
        first, *rest = wrap(cell_text(pod.why), room) if room else [cell_text(pod.why)]
        rows += [(pod.pod, age((now - pod.since).total_seconds()), first), *(("", "", line) for line in rest)]
    return table(("Waiting", "For", "Why"), rows)
