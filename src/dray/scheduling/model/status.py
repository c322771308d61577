"""Status: the answer of a plugin that rejects a pod, on one node or on all. None means that the plugin accepts it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from dray.allocation import Rejection
from dray.scheduling.model.reasons import Code, ObjectRef, Reason


@dataclass(frozen=True, slots=True)
class Status:
    plugin: str
    reasons: tuple[Reason, ...]
    resolvable: bool = True
    """Whether the rejection may end when pods are removed from the node."""
    error: bool = False
    """Whether the plugin failed to decide if the pod fits. The attempt then ends for all nodes."""
    pending: bool = False
    """Whether the rejection ends as soon as a write in progress is done. Such a rejection is not reported."""
    waits_for: tuple[ObjectRef, ...] = ()
    """Objects whose creation or change may end the rejection."""
    alike: Hashable = None
    """A key: pods with equal keys are rejected for the same reason, wait together and are retried together."""
    lets_pass: bool = False
    """Whether other pods of the queue may be placed before the pod, which waits for something else than quota."""

    @classmethod
    def of(cls, plugin: str, code: Code, *args: str, resolvable: bool = True, error: bool = False) -> Status:
        return cls(plugin, (Reason(code, args),), resolvable, error)

    @classmethod
    def unschedulable(cls, text: str, *, resolvable: bool = True, waits_for: tuple[ObjectRef, ...] = ()) -> Status:
        """Returns a rejection by a user's plugin; `text` is shown after the number of nodes with the same text."""
        return cls("", (Reason(Code.PLUGIN, (text,)),), resolvable, waits_for=waits_for)


UNSURE: Final = Status("", ())
"""The answer of a precheck if the filter may end in an error: the node stays feasible, and is filtered first."""


@dataclass(frozen=True, slots=True)
class GroupDiagnosis:
    """Why a group was not scheduled. Equal diagnoses are reported once."""

    need: int
    """The number of pods that have to be placed together."""
    best: int = 0
    """The number of these pods that fit."""
    status: Status | None = None
    """Why the group, or one of its pods, is rejected on all nodes."""
    domains: int = 0
    """The number of topology domains, if the group must be in one of them."""
    domain: str = ""
    """The domain where most of the pods fit."""
    part: str = ""
    """The sub-group that does not fit beside the others."""
    following: Diagnosis | None = None
    """Why the next pod does not fit."""
    undecided: bool = False
    error: bool = False
    reservation: tuple[str, str] | None = None
    """Since when resources are reserved for the group, and until when at most."""

    @property
    def invalid(self) -> bool:
        """Whether the tree of groups is invalid, so that no node can help."""
        return self.status is not None and any(reason.code is Code.GROUP_INVALID for reason in self.status.reasons)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a pod was not scheduled. Equal diagnoses are reported once."""

    nodes: int
    """The number of nodes in the cluster."""
    status: Status | None = None
    """Why the pod is rejected on all nodes; None if the nodes have their own reasons."""
    counts: tuple[tuple[Reason, int], ...] = ()
    """The number of nodes with each reason."""
    nearest: Rejection | None = None
    """The allocator's rejection on the node where the fewest devices are missing, of nodes that lack only devices."""
    deallocated: bool = False
    """Whether a claim of the pod was deallocated, so that the pod can be placed on another node."""
    reservation: tuple[str, str] | None = None
    """Since when resources are reserved for the pod, and until when at most."""
    error: bool = False
