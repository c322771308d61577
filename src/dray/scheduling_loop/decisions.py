"""Decisions of the scheduler as lines of a log: where a pod went with which devices, or why nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.objects import key_of
from dray.api.pods import claims_used
from dray.api.resource_claims import allocation_results, results_of
from dray.scheduling.model.actions import Action, Bind, BindGroup, ClaimWrite, Refuse


def line(action: Action, *, done: bool = True) -> str:
    """`done` tells whether it could be carried out."""
    verb = "bound to" if done else "is not bound yet to"
    if isinstance(action, Bind):
        return "; ".join([f"{title(action)} {verb} {action.node}", *_claims(action)])
    if isinstance(action, BindGroup):
        places = ", ".join(f"{each.pod.key[1]} to {each.node}" for each in action.binds)
        return f"{title(action)} {verb} its nodes: {places}"
    text = "; ".join([f"{title(action)} not placed: {action.message}", *_wanted_claims(action)])
    preemption = action.preemption
    if preemption is None or action.group is not None:
        return text
    victims = ", ".join("/".join(victim.key) for victim in preemption.victims) or "nobody else"
    return f"{text}; it is to go to {preemption.places[action.pod.uid].node}, where it preempts {victims}"


def title(action: Action) -> str:
    if isinstance(action, Bind) or action.group is None:
        return f"Pod {'/'.join(action.pod.key)}"
    return f"{action.group.key.kind} {action.group.key.title}"


def _wanted_claims(action: Refuse) -> list[str]:
    """The claims of the pod, so that whoever searches the log for DRA also finds pods that wait."""
    if action.group is not None:
        return []
    namespace = action.pod.key[0]
    return [f"DRA claim {namespace}/{name}" for _, name in claims_used(action.pod.document)]


def _claims(action: Bind) -> list[str]:
    written = {key_of(each.claim): each for each in action.writes}
    claims = {key_of(each): each for each in (*action.claims, *(write.claim for write in action.writes))}
    return [f"DRA claim {'/'.join(key)}: {_devices(claim, written.get(key))}" for key, claim in claims.items()]


def _devices(claim: Mapping[str, Any], write: ClaimWrite | None) -> str:
    fresh = write is not None and write.allocation is not None
    results = allocation_results(write.allocation) if write is not None and fresh else results_of(claim)
    names = [f"{each['driver']}/{each['pool']}/{each['device']}" for each in results]
    return f"{', '.join(names) or 'no devices'}{'' if fresh else ' (allocated before)'}"
