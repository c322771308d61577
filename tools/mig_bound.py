"""Bound for random partitions: no way to place them accepts more in the long run, whatever it refuses or moves.

Partitions come at random times (a Poisson process), run for random times, and are accepted or refused when they come.
Nobody knows yet how long they will run. So among all partitions whose run time covers a moment, refused ones included,
the refused part is on average the same as among all partitions. The number of those is known: of each profile it has a
Poisson distribution. And not all of them fit, even if all could be moved:
- they need no more slices of memory than there are. Of partitions beyond, at least as many are refused as if all were
  the largest;
- on each GPU, one partition can have a slice. Some profiles need the same slice wherever they are placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, exp, sqrt

from dray.api.objects import Object

Placements = Sequence[frozenset[str]]
"""The slices of memory of each place that a profile can have on a GPU."""


def placements_of(slices: Iterable[Object]) -> dict[str, Placements]:
    """The placements of each profile on one GPU, as published."""
    found: dict[str, set[frozenset[str]]] = {}
    for document in slices:
        for device in document["spec"].get("devices") or ():
            profile = device.get("attributes", {}).get("profile", {}).get("string")
            if profile:
                counters = device["consumesCounters"][0]["counters"]
                taken = frozenset(name for name in counters if name.startswith("memory-slice-"))
                found.setdefault(profile, set()).add(taken)
    return {profile: sorted(each, key=sorted) for profile, each in found.items()}


def accepted_at_most(running: Mapping[str, float], placements: Mapping[str, Placements], gpus: int) -> float:
    """The part that is accepted at most, in percent. `running` is how many partitions of each profile would run on
    average if all were accepted."""
    sizes = {profile: len(placements[profile][0]) for profile in running}
    every = frozenset[str]().union(*(place for places in placements.values() for place in places))
    refused = _beyond([(number, sizes[profile]) for profile, number in running.items()], len(every) * gpus)
    for slice_ in every:
        users = [number for profile, number in running.items() if all(slice_ in each for each in placements[profile])]
        refused = max(refused, _beyond([(sum(users), 1)], gpus))
    return 100 * (1 - refused / sum(running.values()))


def _beyond(kinds: Sequence[tuple[float, int]], room: int) -> float:
    """How many of the partitions at least do not fit, on average; `kinds` are mean numbers and sizes."""
    mean = sum(number * size for number, size in kinds)
    deviation = sqrt(sum(number * size * size for number, size in kinds))
    most, largest = ceil(max(mean, room) + 12 * deviation) + 1, max(size for _, size in kinds)
    # The distribution of the sum of the sizes (Panjer's recursion).
    parts = [exp(-sum(number for number, _ in kinds))]
    for total in range(1, most):
        sums = (number * size * parts[total - size] for number, size in kinds if size <= total)
        parts.append(sum(sums) / total)
    return sum(part * ceil((total - room) / largest) for total, part in enumerate(parts) if total > room)
