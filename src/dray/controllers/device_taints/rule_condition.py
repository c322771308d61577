"""The condition EvictionInProgress of a DeviceTaintRule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object, condition_of
from dray.controllers.device_taints.rules import NO_EXECUTE, effect_of

TYPE: Final = "EvictionInProgress"
NO_EFFECT: Final = "NoEffect"
_ONCE: Final = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


@dataclass(frozen=True, slots=True)
class Impact:
    """What a rule does, or would do with effect NoExecute."""

    pods: int = 0
    namespaces: int = 0
    published: int = 0
    """Devices in slices that it selects."""
    allocated: int = 0
    """Devices in allocation results that it selects."""


def condition(rule: Object, impact: Impact, evicted: int) -> Object:
    """Without the time; `evicted` is the number of pods that this process has evicted for the rule."""
    status, reason, message = _state(effect_of(rule), impact, evicted)
    if evicted:
        message = f"{message} {_number(evicted, 'pod')} evicted since starting the controller.".lstrip()
    found: Object = {"type": TYPE, "status": status, "reason": reason, "message": message}
    if generation := rule["metadata"].get("generation"):
        found["observedGeneration"] = generation
    return found


def of(rule: Object) -> Object | None:
    """The condition that the rule has."""
    return condition_of(rule, TYPE)


def _state(effect: str, impact: Impact, evicted: int) -> tuple[str, str, str]:
    if effect == "None":
        return "False", NO_EFFECT, _simulation(impact)
    if effect != NO_EXECUTE:
        return "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if impact.pods:
        needs = "needs" if impact.pods == 1 else "need"
        return (
            "True",
            "PodsPendingEviction",
            f"{_number(impact.pods, 'pod')} {needs} to be evicted in {_places(impact.namespaces)}.",
        )
    return "False", "Completed" if evicted else "NotStarted", ""


def _simulation(impact: Impact) -> str:
    return (
        f"{_number(impact.published, 'published device')} selected. "
        f"{_number(impact.allocated, 'allocated device')} selected. "
        f"{_number(impact.pods, 'pod')} would be evicted in {_places(impact.namespaces)} "
        f"if the effect was NoExecute. {_ONCE}"
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _places(namespaces: int) -> str:
    return "1 namespace" if namespaces == 1 else f"{namespaces} different namespaces"
