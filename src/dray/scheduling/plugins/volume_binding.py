"""VolumeBinding: rejects a pod until its PersistentVolumeClaims can be used, and nodes that cannot reach their volumes.

The node affinity of a volume decides which nodes reach it. A claim that waits for its first consumer is annotated with
the pod's node, if its StorageClass can provision a volume there, and must be bound before the pod. If the scheduler
may not read volumes or classes, volumes are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.allocation.node_selectors import selects
from dray.api.objects import Object, annotations_of, mappings, strings, walk
from dray.api.volumes import SELECTED_NODE
from dray.scheduling.cluster.volumes import ANY_VOLUME, CLAIM, PodVolumes
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code, ObjectRef
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Plugin, Skip


class VolumeBinding(Plugin):
    skip_is_final = True

    def __init__(self, state: State) -> None:
        self._volumes = state.volumes

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        document = cycle.pod.document
        problem = self._volumes.problem(document)
        if problem is not None:
            reason, key = problem
            return Status(self.name, (reason,), waits_for=(ObjectRef(CLAIM, *key), ANY_VOLUME))
        volumes = self._volumes.of(document)
        if volumes is None:
            return SKIP
        cycle.data[self.name] = volumes
        return None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        volumes: PodVolumes = cycle.data[self.name]
        for claim, storage_class in volumes.waiting:
            selected = annotations_of(claim).get(SELECTED_NODE)
            if (selected and selected != node.name) or not _provisions(storage_class, node.labels):
                return _NOT_PROVISIONED
        for volume in volumes.bound:
            required = walk(volume, "spec", "nodeAffinity").get("required")
            if required is not None and not selects(required, node.name, node.labels):
                return _NODE_AFFINITY
        return None


def unbound_claims(cycle: Cycle) -> tuple[Object, ...]:
    """The pod's claims that wait for their first consumer and get the node of the pod."""
    volumes: PodVolumes | None = cycle.data.get(VolumeBinding.name)
    return tuple(claim for claim, _ in volumes.waiting) if volumes is not None else ()


def _provisions(storage_class: Object, labels: Mapping[str, str]) -> bool:
    """Whether the StorageClass can provision volumes for a node with those labels."""
    terms = mappings(storage_class.get("allowedTopologies"))
    return not terms or any(
        all(labels.get(str(item.get("key"))) in strings(item.get("values")) for item in expressions)
        for term in terms
        if (expressions := mappings(term.get("matchLabelExpressions")))
    )


_NOT_PROVISIONED: Final = Status.of(VolumeBinding.name, Code.VOLUME_NOT_PROVISIONED, resolvable=False)
_NODE_AFFINITY: Final = Status.of(VolumeBinding.name, Code.VOLUME_NODE_AFFINITY, resolvable=False)
