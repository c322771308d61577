"""Revisions of a Deployment: its ReplicaSets, told apart by their templates and numbered in an annotation.

The newest is the one whose template is the Deployment's; rolling back makes an earlier one the newest again, and it
remembers the numbers it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dray.api.objects import Object, annotations_of, int64, is_deleting, labels_of, spec_of, status_of

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
HASH: Final = "pod-template-hash"

_OWN: Final = frozenset(
    {
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
    }
)
_LONGEST_HISTORY: Final = 2000
_UNLIMITED: Final = 2**31 - 1


def revision_of(obj: Object) -> int:
    """Returns the revision number from the annotation; 0 if it is missing or no number."""
    return int64(annotations_of(obj).get(REVISION, "")) or 0


def next_revision(old: Iterable[Object]) -> int:
    return max(map(revision_of, old), default=0) + 1


def newest(deployment: Object, replica_sets: Iterable[Object]) -> Object | None:
    """Returns the oldest ReplicaSet with the Deployment's template; None if there is none."""
    template = _plain(deployment["spec"]["template"])
    return next(
        (replica_set for replica_set in by_age(replica_sets) if _plain(replica_set["spec"]["template"]) == template),
        None,
    )


def by_age(replica_sets: Iterable[Object]) -> list[Object]:
    return sorted(replica_sets, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))


def _plain(template: Object) -> Object:
    """Returns the template without the `pod-template-hash` label and empty metadata, for comparison."""
    labels = {key: value for key, value in labels_of(template).items() if key != HASH}
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if key != "labels" and value}
    return {"metadata": {**metadata, "labels": labels}, "spec": spec_of(template)}


def same_template(one: Object, other: Object) -> bool:
    return _plain(one) == _plain(other)


def annotations_for(deployment: Object, replica_set: Object, revision: int) -> dict[str, str]:
    """Returns the annotations of the newest ReplicaSet: those it has, those of the Deployment, and its revision."""
    present = annotations_of(replica_set)
    copied = {key: value for key, value in annotations_of(deployment).items() if key not in _OWN}
    found = {**present, **copied}
    before = revision_of(replica_set)
    if before < revision:
        found[REVISION] = str(revision)
        if present.get(REVISION):
            found[HISTORY] = _history(present.get(HISTORY, ""), present[REVISION])
    return found


def _history(earlier: str, revision: str) -> str:
    kept = [*(part for part in earlier.split(",") if part), revision]
    while len(",".join(kept)) > _LONGEST_HISTORY:
        kept.pop(0)
    return ",".join(kept)


def surplus(deployment: Object, old: Sequence[Object]) -> list[Object]:
    """Returns idle ReplicaSets beyond the history limit, lowest revision first."""
    limit = spec_of(deployment).get("revisionHistoryLimit")
    if limit is None or limit == _UNLIMITED:
        return []
    left = [replica_set for replica_set in old if not is_deleting(replica_set)]
    return [
        replica_set
        for replica_set in sorted(left, key=revision_of)[: max(0, len(left) - limit)]
        if _is_idle(replica_set)
    ]


def _is_idle(replica_set: Object) -> bool:
    status, metadata = status_of(replica_set), replica_set["metadata"]
    is_seen = (metadata.get("generation") or 0) <= (status.get("observedGeneration") or 0)
    return is_seen and not status.get("replicas") and not spec_of(replica_set).get("replicas")
