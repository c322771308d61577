"""A Job's spec as the controller reads it, with Kubernetes' defaults for what a server left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.defaulting import BACKOFF_LIMIT
from dray.api.objects import Object, mapping, spec_of

MANAGER: Final = "kubernetes.io/job-controller"
_NO_LIMIT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class JobSpec:
    parallelism: int
    # None for a queue of work: the first pod that succeeds tells that it is empty.
    completions: int | None
    indexed: bool
    backoff_limit: int
    backoff_limit_per_index: int | None
    max_failed_indexes: int | None
    active_deadline: int | None
    ttl: int | None
    suspended: bool
    # Whether a pod is replaced when it has ended, and not already when it starts to.
    replaces_ended_only: bool
    failure_rules: tuple[Object, ...]
    success_rules: tuple[Object, ...]
    restarts_in_place: bool

    @classmethod
    def of(cls, job: Object) -> JobSpec:
        spec = job["spec"]
        parallelism, completions = spec.get("parallelism"), spec.get("completions")
        indexed = spec.get("completionMode") == "Indexed"
        if completions is None and (parallelism is None or indexed):
            completions = 1
        per_index = spec.get("backoffLimitPerIndex")
        limit = spec.get("backoffLimit")
        failure_rules = tuple(mapping(spec.get("podFailurePolicy")).get("rules") or ())
        replacement = spec.get("podReplacementPolicy") or ("Failed" if spec.get("podFailurePolicy") else "")
        return cls(
            parallelism=1 if parallelism is None else parallelism,
            completions=completions,
            indexed=indexed,
            backoff_limit=limit if limit is not None else BACKOFF_LIMIT if per_index is None else _NO_LIMIT,
            backoff_limit_per_index=per_index if indexed else None,
            max_failed_indexes=spec.get("maxFailedIndexes"),
            active_deadline=spec.get("activeDeadlineSeconds"),
            ttl=spec.get("ttlSecondsAfterFinished"),
            suspended=bool(spec.get("suspend")),
            replaces_ended_only=replacement == "Failed",
            failure_rules=failure_rules,
            success_rules=tuple(mapping(spec.get("successPolicy")).get("rules") or ()),
            restarts_in_place=spec_of(spec["template"]).get("restartPolicy") == "OnFailure",
        )


def is_managed_here(job: Object) -> bool:
    return job["spec"].get("managedBy") in (None, "", MANAGER)


def is_known_mode(job: Object) -> bool:
    return job["spec"].get("completionMode") in (None, "", "NonIndexed", "Indexed")
