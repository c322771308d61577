"""The condition `Progressing` of a StatefulSet with the strategy `Recreate`."""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, mappings, status_of
from dray.client.clock import timestamp
from dray.controllers.stateful_sets.replicas import Replicas

_TYPE: Final = "Progressing"
_UNDER_WAY: Final = "RecreateInProgress"
_COMPLETE: Final = "RecreateCompleted"


def conditions(replicas: Replicas, *, is_complete: bool) -> list[Object]:
    """Returns all conditions of the set, with `Progressing` updated for the strategy `Recreate`."""
    listed = mappings(status_of(replicas.stateful_set).get("conditions"))
    present = next((condition for condition in listed if condition.get("type") == _TYPE), None)
    wanted = _wanted(replicas, is_complete=is_complete)
    if not replicas.recreates or wanted is None or (is_complete and present is None):
        return listed
    if present is not None and wanted.items() <= present.items():
        return listed
    is_same = present is not None and present.get("status") == wanted["status"]
    since = present.get("lastTransitionTime") if present is not None and is_same else timestamp(replicas.now)
    return [*(condition for condition in listed if condition is not present), {**wanted, "lastTransitionTime": since}]


def _wanted(replicas: Replicas, *, is_complete: bool) -> Object | None:
    if is_complete:
        return {"type": _TYPE, "status": "False", "reason": _COMPLETE, "message": "all pods are of the new revision"}
    if replicas.outdated:
        message = f"{len(replicas.outdated)} pods of earlier revisions are on their way out"
    elif replicas.current != replicas.update:
        message = "pods of the new revision are on their way"
    else:
        return None
    return {"type": _TYPE, "status": "True", "reason": _UNDER_WAY, "message": message}
