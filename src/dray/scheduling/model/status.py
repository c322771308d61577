"""Status: what a plugin answers when it rejects a pod, on one node or on all; None stands for "no objection"."""

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
    """Whether it may change when pods leave the node."""
    error: bool = False
    """Nobody can tell whether the pod fits: the attempt ends for all nodes."""
    pending: bool = False
    """It is over in a moment, when something that is being written is written: nothing is reported."""
    waits_for: tuple[ObjectRef, ...] = ()
    """Objects whose coming or changing may resolve it."""
    alike: Hashable = None
    """Equal for pods that are rejected for the same, and that the same would help: they wait together."""
    lets_pass: bool = False
    """Whether no other pod of the queue has to wait for the pod, which waits for something else than quota."""

    @classmethod
    def of(cls, plugin: str, code: Code, *args: str, resolvable: bool = True, error: bool = False) -> Status:
        return cls(plugin, (Reason(code, args),), resolvable, error)

    @classmethod
    def unschedulable(cls, text: str, *, resolvable: bool = True, waits_for: tuple[ObjectRef, ...] = ()) -> Status:
        """For plugins of users: `text` is counted over nodes and shown after the number of those that say the same."""
        return cls("", (Reason(Code.PLUGIN, (text,)),), resolvable, waits_for=waits_for)


UNSURE: Final = Status("", ())
"""What a precheck answers where the filter itself may find an error: the node stays feasible, and is asked first."""


@dataclass(frozen=True, slots=True)
class GroupDiagnosis:
    """Why a group was not scheduled. Equal ones are reported once."""

    need: int
    """How many pods have to be placed at once."""
    best: int = 0
    """For how many of them there is a place."""
    status: Status | None = None
    """Of the group as a whole, or of a pod of it."""
    domains: int = 0
    """How many domains there are, of a group that must be in one of them."""
    domain: str = ""
    """The one where most of the pods have a place."""
    part: str = ""
    """Of a group of groups the one that finds no place beside the others."""
    following: Diagnosis | None = None
    """Why there is none for the next pod."""
    undecided: bool = False
    error: bool = False
    draining: tuple[str, str] | None = None
    """Since when its place is kept from others, and until when at most."""

    @property
    def invalid(self) -> bool:
        """Whether the groups themselves are wrong, whatever the nodes say."""
        return self.status is not None and any(each.code is Code.GROUP_INVALID for each in self.status.reasons)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a pod was not scheduled. Equal diagnoses are reported once."""

    nodes: int
    """How many there are."""
    status: Status | None = None
    """Of the pod as a whole; else the nodes have their reasons."""
    counts: tuple[tuple[Reason, int], ...] = ()
    """On how many nodes each reason was given."""
    nearest: Rejection | None = None
    """What the allocator says of the node where least is missing, of those that lack only devices."""
    deallocated: bool = False
    """Whether devices that only this pod had are given back, so that it can be elsewhere."""
    draining: tuple[str, str] | None = None
    """Since when a place is kept for it from others, and until when at most."""
    error: bool = False
