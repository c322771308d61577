"""Plugin: one rule by which pods are scheduled, a filter, a score or both.

The stages of an attempt, each with what a plugin may do there; what it does not define is skipped:

    pre_enqueue   whether the pod may be tried at all
    prefilter     once for the pod: reject it, say that this plugin does not matter to it, or prepare `cycle.data`
    filter        for a node: None, or a Status that says why not
    score         for a node that fits: 0 to 100, times `weight`; `normalize` scales the scores of all nodes
    reserve       the pod is going to the node: take what it requires there; `unreserve` gives it back

None stands for "no objection" wherever a Status may be answered.

`depends_on` says what an answer of `filter` and `score` depends on beside the pod. Answers that depend on the node, the
pods on it or its devices are kept until that changes, and shared between pods of one signature; `sign` adds to the
signature what this plugin reads of a pod. The same declaration is the queueing hint: a pod that was rejected is tried
again when something changed that an answer depends on, or an object that the Status waits for.

Plugins of users are written against this class too, and run behind `GuardedPlugin`. They import from this module alone,
which offers the reasons and statuses that they answer with.
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
"""What `prefilter` and `prescore` answer where the plugin has nothing to say about the pod."""


class FailurePolicy(Enum):
    """What happens to pods once a plugin of a user is switched off, in the words of admission webhooks."""

    IGNORE = "Ignore"
    """They are placed without it."""
    FAIL = "Fail"
    """They wait: for rules that must hold or nothing is to be placed."""


class Plugin:
    name: str = ""
    """That of the class, unless it says otherwise."""
    depends_on: Depends = Depends.CLUSTER
    weight: int = 1
    lazy: bool = False
    """`filter` is expensive: all nodes get `precheck` instead, and those that would be chosen `filter`."""
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    """Only of plugins of users; the scheduler's own are never switched off."""

    cluster: Iterable[Node] = ()
    """All nodes with the pods on them, for plugins of users: set before the first attempt. Who reads it depends on
    CLUSTER."""

    def __init_subclass__(cls) -> None:
        if not cls.__dict__.get("name"):
            cls.name = cls.__name__

    def sign(self, document: Object) -> Hashable:
        """What answers that are kept depend on of a pod, unless the scheduler's own plugins read it too."""
        return None

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        return None

    def precheck(self, cycle: Cycle, node: Node) -> Status | None:
        """A quick form of `filter` that may let nodes pass that do not fit, or be UNSURE."""
        return None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        return None

    def details(self, cycle: Cycle, node: Node) -> tuple[Any, ...]:
        """What is behind a Status of `filter`, for explanations: see `dray.scheduling.model.reasons`."""
        return ()

    def prescore(self, cycle: Cycle) -> Skip | None:
        """Before scores that are not kept: SKIP where they do not matter to the pod."""
        return None

    def score(self, cycle: Cycle, node: Node) -> int:
        return 0

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        """Scores by node number of the nodes that fit, scaled to 0 to 100; empty where they do not differ."""
        return scores

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        """Whether `filter` found that the node deserves a lower score than it had; the nodes are then ranked again."""
        return False

    def reserve(self, cycle: Cycle, node: Node) -> None:
        pass

    def unreserve(self, cycle: Cycle, node: Node) -> tuple[ObjectRef, ...]:
        """The pod was bound or will not be: drops what is not written, and says which objects others may now have."""
        return ()

    def defines(self, method: str) -> bool:
        """Whether there is more to a stage than what stands here."""
        return getattr(type(self), method) is not getattr(Plugin, method)
