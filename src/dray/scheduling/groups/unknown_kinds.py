"""UnknownKinds: holds back pods that name a group, a queue or a class of a kind that the server may not have.

Kinds of other systems can be installed at any time. A pod that names an object of such a kind is tried only after the
server was asked for the kind after the pod was first seen. Otherwise the first pods of a gang would be placed alone.
The caller that asks the server reports it with `begin` and `end`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from dray.api.objects import Object, labels_of, mapping, mappings, walk
from dray.scheduling.cluster import compute_class, node_classes
from dray.scheduling.groups.front_ends import APIS, group_of
from dray.scheduling.model.group import GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.quota.systems import NAMED_KINDS

ANSWER: Final = ObjectRef("kinds of the server", "", "")
"""The object that pods with unknown kinds wait for: the answer of the server."""
_NODE_LABELS: Final = {compute_class.LABEL: compute_class.KIND, node_classes.NODE_POOL_LABEL: node_classes.NODE_POOL}


def named_kinds(pod: Object) -> Iterator[str]:
    """The kinds of the objects that a pod names, as the scheduler receives them."""
    labels, group = labels_of(pod), group_of(pod)
    of_queues = [kind for label, kinds in NAMED_KINDS.items() if label in labels for kind in kinds]
    yield from of_queues
    if group is not None:
        yield from (kind for kind in _kinds_of_group(pod, group) if kind not in of_queues)
    spec = mapping(pod.get("spec"))
    if "nodeSelector" in spec or "affinity" in spec:
        yield from {kind for label, kind in _NODE_LABELS.items() if label in _asked_labels(spec)}


def _kinds_of_group(pod: Object, group: GroupKey) -> Iterable[str]:
    api = APIS.get(group.api)
    if api is None:
        return ()
    if api.named_kinds is not None:
        return api.named_kinds(pod)
    return [name for name, front_end in api.kinds.items() if front_end.kind == group.kind]


def _asked_labels(spec: Object) -> set[str]:
    """The labels that nodes of the pod must have."""
    required = walk(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = mappings(required.get("nodeSelectorTerms"))
    expressions = (expression for term in terms for expression in mappings(term.get("matchExpressions")))
    return {*mapping(spec.get("nodeSelector")), *(str(expression.get("key")) for expression in expressions)}


class UnknownKinds:
    def __init__(self) -> None:
        self.wanted: Callable[[], None] | None = None
        """Callback for when a pod waits for the answer of the server. If None, no pod waits."""
        self.known: set[str] = set()
        """Kinds that the server is known to have, and kinds that need no question."""
        self._begun_before: dict[str, int] = {}
        """The number of questions that had begun when the pod was first seen, by pod uid."""
        self._begun = 0
        self._answered = 0

    def waits(self, pod: Pod) -> list[str]:
        """The kinds that the server has to be asked for before the pod is tried."""
        wanted = pod.requirements
        if self.wanted is None or not (pod.joins or wanted.node_selector or wanted.node_affinity is not None):
            return []
        missing = [kind for kind in named_kinds(pod.document) if kind not in self.known]
        if not missing or self._answered > self._begun_before.setdefault(pod.uid, self._begun):
            return []
        self.wanted()
        return missing

    def forget(self, uid: str) -> None:
        self._begun_before.pop(uid, None)

    def begin(self) -> None:
        """Counts a question to the server for all unknown kinds."""
        self._begun += 1

    def end(self) -> None:
        """Notes that the server has answered the questions so far."""
        self._answered = self._begun
