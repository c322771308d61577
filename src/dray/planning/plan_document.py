"""The document of a plan, which `dray plan -o json` prints. docs/plan.md describes it; its version is `API_VERSION`.

Fields are only added within a version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.api.objects import Object
from dray.api.times import text_of
from dray.planning.changes import Change
from dray.planning.cost import Cost
from dray.planning.plan import Plan
from dray.planning.playing import Evicted, PlacedPod
from dray.planning.starting import Start

API_VERSION: Final = "plan.dray.dev/v1alpha1"
_RESULT: Final = ("request", "driver", "pool", "device", "adminAccess", "consumedCapacity")


def plan_document(plan: Plan, notes: Sequence[str] = ()) -> Object:
    played = plan.played
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "verdict": plan.verdict.value,
        "changes": [_change(each) for each in plan.changes],
        "pods": [_with_start(_pod(each), plan, each) for each in played.pods],
        "evictions": [_eviction(each) for each in played.evicted],
        "deletions": [
            {"namespace": each.key[0], "name": each.key[1], "node": each.node, "reason": each.reason}
            for each in played.deleted
        ],
        "started": [_pod(each) for each in played.started],
        "cost": {"pods": _cost(plan.cost), "addedMachines": _cost(plan.added_cost)},
        "suggestions": [
            {**_change(each.change), "evictions": [_eviction(evicted) for evicted in each.evicted]}
            for each in plan.suggestions
        ],
        "search": {"tried": plan.tried, "exhausted": plan.exhausted, "smallest": plan.smallest},
        "notes": [*played.problems, *notes],
    }


def _change(change: Change) -> Object:
    return {"type": change.kind, "description": change.text}


def _pod(pod: PlacedPod) -> Object:
    made: Object = {"namespace": pod.key[0], "name": pod.key[1], "fits": bool(pod.node)}
    if pod.group is not None:
        made["group"] = {"namespace": pod.group.namespace, "name": pod.group.name, "kind": pod.group.kind}
    if pod.node:
        devices = [
            {"claim": claim, **{name: result[name] for name in _RESULT if name in result}}
            for claim, result in pod.devices
        ]
        return {**made, "node": pod.node, "devices": devices}
    made["reason"] = pod.reason
    return {**made, "queue": {"name": pod.queue, "position": pod.position}} if pod.queue else made


def _with_start(document: Object, plan: Plan, pod: PlacedPod) -> Object:
    if pod.node:
        return document
    start = plan.starts.get(pod.key, Start())
    times = {"earliest": start.earliest, "latest": start.latest}
    return {**document, "start": {name: text_of(at) for name, at in times.items() if at is not None}}


def _eviction(evicted: Evicted) -> Object:
    made: Object = {
        "namespace": evicted.key[0],
        "name": evicted.key[1],
        "node": evicted.node,
        "reason": evicted.reason,
        "reclaims": evicted.reclaims,
        "for": evicted.preemptor,
    }
    return {**made, "createdAgain": _pod(evicted.again)} if evicted.again is not None else made


def _cost(cost: Cost) -> Object:
    return {"hourly": round(cost.hourly, 4), "unpriced": list(cost.unpriced)}
