"""Random workloads that claim partitions of GPUs (MIG profiles), with arrivals and departures.

Workloads come at random times, each for one partition of a random profile, and run for an hour on average; both times
are exponentially distributed. They come so often that, if all were accepted, they would use the given load on average.
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
    """`load` is in percent of all devices."""
    random, profiles = Random(seed), list(mix)
    requests = {profile: profile_request(profile, published) for profile in profiles}
    devices = len({device.physical for name, device in published.items() if name[0] in drivers})
    mean = sum(mix[profile] * requests[profile][0] for profile in profiles) / sum(mix.values())
    between = RUN_SECONDS * mean / (load / 100 * WHOLE * devices)
    found, now = [], 0.0
    for _ in range(number):
        now += random.expovariate(1 / between)
        profile = random.choices(profiles, [mix[each] for each in profiles])[0]
        units, selector = requests[profile]
        shape = Shape(_CLASS, 1, selector, "1", "1Gi")
        found.append(workload(shape, units, profile, now, random.expovariate(1 / RUN_SECONDS)))
    return found
