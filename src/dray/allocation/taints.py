"""Taints of devices, the rules that add them, and the tolerations of requests.

Only the effects NoSchedule and NoExecute keep a device from being allocated. A toleration with an empty key or
effect matches every key or effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dray.api.objects import Object, mapping

EFFECTIVE: Final = frozenset({"NoSchedule", "NoExecute"})


def effective(taints: Iterable[Object]) -> tuple[Object, ...]:
    return tuple(taint for taint in taints if taint.get("effect") in EFFECTIVE)


def tolerated(taint: Object, tolerations: Sequence[Object]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def untolerated(taints: Iterable[Object], tolerations: Sequence[Object]) -> Object | None:
    """Returns the first taint that no toleration matches; None if all are tolerated."""
    return next((taint for taint in taints if not tolerated(taint, tolerations)), None)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def rule_applies(rule: Object, driver: str, pool: str, device: str) -> bool:
    """Whether a DeviceTaintRule taints the device. For allocation an absent selector means every device."""
    selector = mapping(rule["spec"].get("deviceSelector"))
    wanted = ((selector.get("driver"), driver), (selector.get("pool"), pool), (selector.get("device"), device))
    return all(want in (None, "", given) for want, given in wanted)
