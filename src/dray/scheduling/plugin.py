"""Plugin: one rule by which pods are scheduled, a filter, a score or both.

The stages of an attempt, each with what a plugin may do there. Stages that a plugin does not define are skipped:

    pre_enqueue   whether the pod may be tried at all
    prefilter     once for the pod: reject it, skip this plugin for it, or prepare `cycle.data`
    filter        for a node: None, or a Status that says why not
    score         for a node that fits: 0 to 100, times `weight`; `normalize` scales the scores of all nodes
    reserve       the pod is assumed on the node: take what it requires there; `unreserve` releases it

A method that may return a Status returns None if the plugin does not reject the pod.

`depends_on` says what an answer of `filter` and `score` depends on beside the pod. Answers that depend on the node, its
pods or its devices are kept until one of these changes, and shared between pods with the same signature; `sign` adds
the fields to the signature that this plugin reads of a pod. `depends_on` is also the queueing hint: a rejected pod is
tried again when something changes that an answer depends on, or an object that the Status waits for.

Users write plugins against this class too, and these run behind `GuardedPlugin`. They import from this module alone,
which offers the reasons and statuses that plugins return.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, Any, Final

from dray.api.objects import Object
from dray.scheduling.model.node import Node as Node
from dray.scheduling.model.pod import Pod as Pod
from dray.scheduling.model.reasons import LabelMismatch as LabelMismatch
from dray.scheduling.model.reasons import ObjectRef as ObjectRef
from dray.scheduling.model.reasons import Shortage as Shortage
from dray.scheduling.model.reasons import UntoleratedTaint as UntoleratedTaint
from dray.scheduling.model.status import Status as Status

if TYPE_CHECKING:
    from dray.scheduling.core.cycle import Cycle


class Depends(Flag):
    NODE = auto()
    """The Node object."""
    PODS = auto()
    """The pods on the node."""
    DEVICES = auto()
    """The devices that the node reaches."""
    CLUSTER = auto()
    """Pods on other nodes, or anything else: answers are not kept."""


class Skip(Enum):
    SKIP = auto()


SKIP: Final = Skip.SKIP
"""The answer of `prefilter` and `prescore` if the plugin does not concern the pod."""


class FailurePolicy(Enum):
    """Says what happens to pods after a user's plugin was switched off. The values are those of admission webhooks."""

    IGNORE = "Ignore"
    """Pods are placed without the plugin."""
    FAIL = "Fail"
    """Pods wait. Use this for rules without which no pod may be placed."""


class Plugin:
    name: str = ""
    """The name of the plugin; the name of its class by default."""
    depends_on: Depends = Depends.CLUSTER
    weight: int = 1
    lazy: bool = False
    """Whether `filter` is expensive: all nodes get `precheck`, and only nodes that would be chosen get `filter`."""
    skip_is_final: bool = False
    """Whether `SKIP` of `prefilter` depends on the pod alone. Otherwise `prefilter` is called again in a trial that
    places or removes other pods."""
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    """Used only for plugins of users; the scheduler's own plugins are never switched off."""

    cluster: Iterable[Node] = ()
    """The nodes with the pods on them, for plugins of users; set before the first attempt. A plugin that reads this
    must declare that it depends on CLUSTER."""

    def __init_subclass__(cls) -> None:
        if not cls.__dict__.get("name"):
            cls.name = cls.__name__

    def sign(self, document: Object) -> Hashable:
        """Returns the fields of the pod that answers of this plugin depend on, as one value. Fields that the
        scheduler's own plugins read need not be included."""
        return None

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        return None

    def precheck(self, cycle: Cycle, node: Node) -> Status | None:
        """Returns a quick answer in place of `filter`: it may accept nodes that do not fit, or return UNSURE."""
        return None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        return None

    def details(self, cycle: Cycle, node: Node) -> tuple[Any, ...]:
        """Returns details of a rejection by `filter`, for explanations: see `dray.scheduling.model.reasons`."""
        return ()

    def prescore(self, cycle: Cycle) -> Skip | None:
        """Runs once before scores that are not kept; returns SKIP if the plugin does not score nodes for the pod."""
        return None

    def score(self, cycle: Cycle, node: Node) -> int:
        return 0

    def score_revision(self, cycle: Cycle) -> int:
        """Returns another number than before if kept scores for pods like this one changed on nodes that did not."""
        return 0

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        """Returns the scores of the feasible nodes, by node number, scaled to 0 to 100; empty if they do not differ."""
        return scores

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        """Whether `filter` found that the node needs a lower score; the nodes are then ranked again."""
        return False

    def reserve(self, cycle: Cycle, node: Node) -> None:
        pass

    def unreserve(self, cycle: Cycle, node: Node) -> tuple[ObjectRef, ...]:
        """Releases what `reserve` took and was not written, after the pod was bound or its binding failed.

        Returns the objects that other pods may wait for and can use now.
        """
        return ()

    def defines(self, method: str) -> bool:
        """Whether the plugin overrides the method of this class."""
        return getattr(type(self), method) is not getattr(Plugin, method)
