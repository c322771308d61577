"""Random workloads that claim partitions of GPUs (MIG profiles), each for one partition of a random profile.

With departures they come at random times and run for an hour on average; both times are exponentially distributed. They
come so often that, if all were accepted, they would use the given load on average. The first three hours, in which the
cluster fills, come in addition and are not measured. Without departures they never end, and come until they request the
given load.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from dray.replay.csv_files import TraceError
from dray.replay.device_units import WHOLE, DeviceName, PublishedDevice
from dray.replay.workload_files import Shape, profile_request, workload
from dray.replay.workloads import Workload

RUN_SECONDS: Final = 3600.0
"""The mean run time."""
WARM_UP: Final = 3 * RUN_SECONDS
"""After this time as much is in use as later, but for 5 %."""
_MOST_WEIGHT: Final = 1e9
_CLASS: Final = "mig.nvidia.com"
_EXTRA: Final = "+me"
"""Profiles with media engines: a GPU has one or none of these."""


def mix_of(text: str, published: Mapping[DeviceName, PublishedDevice]) -> dict[str, float]:
    """Weights by profile: `all` for all profiles alike, or `1g.10gb=3,7g.80gb=1`. Raises TraceError."""
    if text == "all":
        found = {device.attributes.get("profile", "") for device in published.values()} - {""}
        if not found:
            raise TraceError("no device has a profile: publish GPUs as partitions, as in --fleet p5.48xlarge:mig=8")
        return dict.fromkeys(sorted(name for name in found if not name.endswith(_EXTRA)), 1.0)
    mix = {}
    for part in text.split(","):
        profile, _, weight = part.partition("=")
        profile_request(profile, published)
        mix[profile] = _weight(part, weight)
    return mix


def _weight(part: str, text: str) -> float:
    try:
        weight = float(text or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < _MOST_WEIGHT:
        raise TraceError(f"{part!r}: write PROFILE=WEIGHT with a weight above 0, as in 1g.10gb=3")
    return weight


def random_workloads(
    mix: Mapping[str, float],
    published: Mapping[DeviceName, PublishedDevice],
    drivers: frozenset[str],
    *,
    number: int,
    load: float,
    seed: int,
) -> list[Workload]:
    """Returns `number` workloads after the warm-up, and those before. `load` is in percent of all devices."""
    random, profiles = Random(seed), _Profiles(mix, published)
    between = RUN_SECONDS * profiles.mean / (load / 100 * _units(published, drivers))
    found: list[Workload] = []
    now, measured = 0.0, 0
    while measured < number:
        now += random.expovariate(1 / between)
        found.append(profiles.drawn(random, now, random.expovariate(1 / RUN_SECONDS)))
        measured += now >= found[0].created + WARM_UP
    return found


def filling_workloads(
    mix: Mapping[str, float],
    published: Mapping[DeviceName, PublishedDevice],
    drivers: frozenset[str],
    *,
    load: float,
    seed: int,
) -> list[Workload]:
    """Workloads that never end, until they request this part of all devices, in percent."""
    random, profiles = Random(seed), _Profiles(mix, published)
    found: list[Workload] = []
    requested, enough = 0, load / 100 * _units(published, drivers)
    while requested < enough:
        found.append(profiles.drawn(random, float(len(found)), None))
        requested += found[-1].units
    return found


def _units(published: Mapping[DeviceName, PublishedDevice], drivers: frozenset[str]) -> int:
    return WHOLE * len({device.physical for name, device in published.items() if name[0] in drivers})


class _Profiles:
    def __init__(self, mix: Mapping[str, float], published: Mapping[DeviceName, PublishedDevice]) -> None:
        self._names, self._weights = list(mix), list(mix.values())
        self._requests = {profile: profile_request(profile, published) for profile in mix}
        self.mean = sum(mix[profile] * self._requests[profile][0] for profile in mix) / sum(self._weights)
        """The mean of the requested units."""

    def drawn(self, random: Random, created: float, seconds: float | None) -> Workload:
        profile = random.choices(self._names, self._weights)[0]
        units, selector = self._requests[profile]
        return workload(Shape(_CLASS, 1, selector, "1", "1Gi"), units, profile, created, seconds)
