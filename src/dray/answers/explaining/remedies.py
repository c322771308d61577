"""Remedies: what to do about a reason that `dray explain` found, in a few words.

`of_conclusion` has remedies for devices, `of_mismatch` for labels of nodes, and `of_shortage` for resources of nodes.
`of_text` has remedies for messages of the scheduler and the API server, which `dray explain` prints unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.allocation import conclusions as c
from dray.allocation import reasons as r
from dray.answers.advice import advice_in
from dray.api.suggestions import did_you_mean
from dray.scheduling.model.reasons import LabelMismatch, Shortage, UntoleratedTaint

_HOSTNAME: Final = "kubernetes.io/hostname"
_CONDITIONS: Final = "node.kubernetes.io/"
"""Prefix of the taints that stand for conditions of a node."""
_UNSCHEDULABLE: Final = f"{_CONDITIONS}unschedulable"
# Maps a part of a message to its remedy.
_MESSAGES: Final = {
    "pods have to be placed together, but only": "free devices, add nodes, or lower the minimum of the group",
    "that have to start together: waiting for the others": "create the missing pods, or lower the minimum of the group",
}
_MISSING_VOLUME: Final = ('persistentvolumeclaim "', "not found")


def of_text(message: str) -> str:
    """Returns the remedy for a message; empty if the message has one itself."""
    if message.startswith(_MISSING_VOLUME[0]) and message.endswith(_MISSING_VOLUME[1]):
        return "create it, or correct claimName in the pod"
    return next((remedy for part, remedy in _MESSAGES.items() if part in message), "") or advice_in(message)


def of_conclusion(conclusion: c.Conclusion, *, selects_nodes: bool) -> str:
    """Returns the remedy for devices that are missing or do not go together; empty if there is none to name.

    `selects_nodes` tells whether the pod itself excludes nodes by their labels.
    """
    if getattr(conclusion, "free", None):
        # The conclusion says what to free.
        return ""
    match conclusion:
        case c.NothingSuitable(node=str(node)) if node and selects_nodes:
            return "name another node, or leave out the node selector"
        case c.NothingSuitable(nearest=r.NearestMiss(cause=cause)):
            return _of_cause(cause)
        case c.Apart(conflict=r.NoCommonValue(values=values, requests=requests)) if values and len(requests) == 1:
            most = max(number for _, number in values)
            return f"ask for at most {most}, or leave out the constraint"
        case c.Short(nearest=nearest):
            return _of_shortage(nearest)
        case _:
            return ""


def _of_shortage(rejection: r.Rejection) -> str:
    """Returns the remedy for the first request that lacks devices."""
    for request in rejection.requests:
        if request.suffices or request.every:
            continue
        causes = [fallen.cause for fallen in request.fallen]
        in_use = sum(len(fallen.devices) for fallen in request.fallen if _is_temporary(fallen.cause))
        there = len(request.available) + in_use
        if request.need > there > 0:
            return f"ask for at most {there}, or split the work into several pods"
        if request.need > 1 and any(isinstance(cause, r.InUse) for cause in causes):
            # Freed devices would not be enough, or the conclusion would name their claims.
            return "ask for fewer, or leave out a constraint"
        for cause in reversed(causes):
            if remedy := _of_cause(cause):
                return remedy
    return ""


def _is_temporary(cause: r.Cause) -> bool:
    """Returns True if the request could take the device at another time."""
    return isinstance(cause, r.InUse | r.CapacityUsed | r.Tainted)


def _of_cause(cause: r.Cause) -> str:
    match cause:
        case r.CapacityTooSmall(name=name, value=value) if value:
            return f"ask for at most {value} {name}"
        case r.Tainted(rule=str(rule)) if rule:
            return f"tolerate the taint in the claim, or delete DeviceTaintRule {rule}"
        case r.Tainted():
            return "tolerate the taint in the claim, or repair the device"
        case r.NotSelected(source="request"):
            return "change the selector to what there is"
        case r.InUse():
            return "wait until a device is free"
        case _:
            return ""


def of_mismatch(mismatch: LabelMismatch, nodes: Sequence[str]) -> str:
    """Returns the remedy for a label that no node has; `nodes` are the names of the nodes."""
    if mismatch.key == _HOSTNAME and mismatch.values and (question := did_you_mean(mismatch.values[0], nodes)):
        return question
    return f"change the node selector, or label a node with {mismatch.key}"


def of_taint(taint: UntoleratedTaint) -> str:
    """Returns the remedy for the taint of a node."""
    if taint.key == _UNSCHEDULABLE:
        return "uncordon the node, or tolerate the taint in the pod"
    if taint.key.startswith(_CONDITIONS):
        return "repair the node, or tolerate the taint in the pod"
    return "tolerate the taint in the pod, or remove it from the node"


def of_shortage(short: Shortage, most: str) -> str:
    """Returns the remedy for a resource that is short; `most` is the amount of the largest node."""
    if short.wanted > short.allocatable:
        return f"ask for at most {most}"
    return "ask for less, or end other pods"
