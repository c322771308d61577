"""One sample of a cluster: the share of devices in use, how busy they are, who waits, and how scattered the rest is.

Allocation and fragmentation are about whole devices: a GPU is in use if a claim holds it or a part of it, and what it
could be divided into is not counted. Network and CPU devices, of which nodes have many, count for their models alone,
unless there is nothing else. *Fragmentation* is the share of free devices on nodes where devices of the same model are
in use: whoever needs a whole node cannot have these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dray.allocation.device_states import DeviceState, device_states
from dray.api.objects import Object, is_deleting, metadata_of
from dray.api.pods import is_terminal, node_of
from dray.web.devices.layouts import DOMAIN_DRIVER, kind_of
from dray.web.search.rows import key, model

KINDS: Final = ("slices", "claims", "pods", "taintrules")
_MOST_MODELS: Final = 8
_MOST_IDLE: Final = 500
_TAKEN: Final = ("allocated", "shared", "blocked")
_SMALL: Final = ("nic", "cpu")


@dataclass(frozen=True, slots=True)
class Idle:
    """A device that a claim holds and nobody uses."""

    device: str
    node: str
    model: str
    claim: str
    since: str
    percent: int | None

    def document(self) -> Object:
        made: Object = {"node": self.node, "model": self.model, "claim": self.claim, "since": self.since}
        return {**made, "percent": self.percent} if self.percent is not None else made


@dataclass(frozen=True, slots=True)
class Measured:
    sample: dict[str, float]
    idle: tuple[Idle, ...]


def measure(objects: Mapping[str, Sequence[Object]], now: float) -> Measured:
    states = device_states(*(objects[kind] for kind in KINDS))
    kinds = {id(each): kind_of(each.place[0], each.document) for each in states if each.place[0] != DOMAIN_DRIVER}
    whole = [each for each in states if kinds.get(id(each), "part") != "part"]
    main = [each for each in whole if kinds[id(each)] not in _SMALL] or whole
    sample = {**_allocation(main, whole), **_utilization(states), **_waiting(objects["pods"], now), **_scattered(main)}
    return Measured(sample, tuple(_idle(states)))


def _allocation(main: Sequence[DeviceState], whole: Sequence[DeviceState]) -> dict[str, float]:
    """Percent of the devices in use: of the main ones together, and of each of the most common models."""
    if not main:
        return {}
    totals: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for each in whole:
        name = model(each)
        totals[name] += 1
        used[name] += each.state in _TAKEN
    taken = sum(each.state in _TAKEN for each in main)
    made = {"allocated": 100 * taken / len(main), "devices": float(len(main))}
    for name, number in totals.most_common(_MOST_MODELS):
        made[f"allocated:{name}"] = 100 * used[name] / number
    return made


def _utilization(states: Iterable[DeviceState]) -> dict[str, float]:
    """The mean of those devices in use that report it."""
    busy = [each.utilization.percent for each in states if each.utilization is not None and each.holders]
    known = [percent for percent in busy if percent is not None]
    return {"busy": sum(known) / len(known)} if known else {}


def _waiting(pods: Iterable[Object], now: float) -> dict[str, float]:
    waits = [
        max(0.0, now - since)
        for pod in pods
        if not node_of(pod) and not is_terminal(pod) and not is_deleting(pod) and (since := _created(pod)) is not None
    ]
    return {"waiting": float(len(waits)), "longest": max(waits, default=0.0)}


def _created(pod: Object) -> float | None:
    try:
        return datetime.fromisoformat(str(metadata_of(pod).get("creationTimestamp"))).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _scattered(states: Iterable[DeviceState]) -> dict[str, float]:
    places: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for each in states:
        if each.node:
            places[each.node, model(each)]["taken" if each.state in _TAKEN else each.state] += 1
    free = sum(counts["free"] for counts in places.values())
    scattered = sum(counts["free"] for counts in places.values() if counts["taken"])
    return {"fragmentation": 100 * scattered / free} if free else {}


def _idle(states: Iterable[DeviceState]) -> list[Idle]:
    found = [
        Idle(key(each), each.node, model(each), holder.claim, each.utilization.idle_since, each.utilization.percent)
        for each in states
        if each.utilization is not None and each.utilization.idle_since
        for holder in each.holders
    ]
    return sorted(found, key=lambda each: each.since)[:_MOST_IDLE]
