"""Stages: the rules by which pods live on simulated nodes, devices fail, and nodes go silent. Plain data.

Of the rules for pods the first that matches counts, and annotations of the pod go before it. All rules for devices and
nodes that match count together. A `Span` is a number of seconds, or the least and the most of them: then chance
decides, by the seed of the fleet and the name of the object, so that the same object has the same life in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Final, Literal

import msgspec

from dray.api.objects import Object, annotations_of, key_of, labels_of
from dray.fleet.machine_type import Part

ANNOTATION: Final = "simulated.dray.dev"
"""Domain of the annotations that control pods and nodes."""

Span = float | tuple[float, float]
Exit = int | tuple[int, ...] | dict[int, float]
"""The code of every run, those of one run after the other (the last one again and again), or chances by code."""

LONGEST: Final = 10.0 * 365 * 86400


class Match(Part, frozen=True, kw_only=True):
    """Names may have wildcards; what is left out matches everything."""

    namespace: str = "*"
    name: str = "*"
    labels: dict[str, str] = msgspec.field(default_factory=dict)

    def fits(self, obj: Object) -> bool:
        namespace, name = key_of(obj)
        labels = labels_of(obj)
        return (
            fnmatchcase(name, self.name)
            and (not namespace or fnmatchcase(namespace, self.namespace))
            and all(fnmatchcase(labels.get(key, ""), value) for key, value in self.labels.items())
        )


class PodStage(Part, frozen=True, kw_only=True):
    """`run_seconds` is how long each container runs; without it, until the pod is deleted."""

    match: Match = Match()
    start_seconds: Span = 1.0
    run_seconds: Span | None = None
    exit_code: Exit = 0
    stop_seconds: Span = 0.0
    prepare_error: str = ""


class DeviceStage(Part, frozen=True, kw_only=True):
    """Devices fail at times counted from the creation of their node, or at random after `every_seconds` on average.

    `times` is how often each may fail at random; 0 for ever."""

    nodes: Match = Match()
    driver: str = "*"
    device: str = "*"
    at_seconds: tuple[float, ...] = ()
    every_seconds: float | None = None
    times: int = 0
    down_seconds: Span = 60.0
    taint: Object = msgspec.field(default_factory=lambda: dict(DEFAULT_TAINT))


class NodeStage(Part, frozen=True, kw_only=True):
    """A rule for nodes that send no heartbeats for a while and ignore their pods."""

    nodes: Match = Match()
    at_seconds: tuple[float, ...] = ()
    every_seconds: float | None = None
    times: int = 0
    down_seconds: Span = 120.0


class Stages(Part, frozen=True, kw_only=True, tag_field="kind", tag="Stages"):
    api_version: Literal["fleet.dray.dev/v1alpha1"]
    pods: tuple[PodStage, ...] = ()
    devices: tuple[DeviceStage, ...] = ()
    nodes: tuple[NodeStage, ...] = ()


DEFAULT_TAINT: Final[Object] = {"key": "simulated.dray.dev/failed", "effect": "NoExecute"}
NO_STAGES: Final = Stages(api_version="fleet.dray.dev/v1alpha1")
_PLAIN: Final = PodStage()


def pod_stage(stages: Stages, pod: Object) -> PodStage:
    """Returns the rule for a pod, changed by its annotations; invalid annotations are ignored."""
    stage = next((rules for rules in stages.pods if rules.match.fits(pod)), _PLAIN)
    given: dict[str, Any] = {}
    for name, read in _READERS.items():
        text = annotations_of(pod).get(f"{ANNOTATION}/{name}")
        if text is not None and (value := read(text)) is not None:
            given[name.replace("-", "_")] = value
    return msgspec.structs.replace(stage, **given) if given else stage


def seconds(span: Span, chance: Random) -> float:
    return chance.uniform(*span) if isinstance(span, tuple) else span


def exit_code(code: Exit, run: int, chance: Random) -> int:
    """Returns the exit code of the container's run with this number, counted from 0."""
    match code:
        case int():
            return code
        case tuple():
            return code[min(run, len(code) - 1)]
    return chance.choices(list(code), list(code.values()))[0]


def _span(text: str) -> Span | None:
    parts = text.split("-") if "-" in text else [text]
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None
    if len(numbers) > 2 or not all(0 <= number <= LONGEST for number in numbers):
        return None
    return numbers[0] if len(numbers) == 1 else (min(numbers), max(numbers))


def _codes(text: str) -> Exit | None:
    try:
        codes = tuple(int(part) for part in text.split(","))
    except ValueError:
        return None
    return codes if all(0 <= code <= 255 for code in codes) else None


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "start-seconds": _span,
    "run-seconds": _span,
    "stop-seconds": _span,
    "exit-code": _codes,
    "prepare-error": str,
}
