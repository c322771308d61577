"""PodGroups as the scheduler knows them, and whose a claim is.

A claim that a pod names just as its group does is the group's: it is reserved for the group, once for all its pods.
"""

from __future__ import annotations

from typing import Final

from dray.api.gates import FeatureGates
from dray.api.objects import Key, Object, key_of
from dray.api.pods import group_name, has_entry
from dray.scheduling.model import Pod

API_GROUP: Final = "scheduling.k8s.io"
KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"


class Groups:
    def __init__(self, gates: FeatureGates) -> None:
        self.served = False
        """Whether there can be groups at all; where there cannot, what a pod says of its group means nothing."""
        self._have_claims = gates["DRAWorkloadResourceClaims"]
        self._known: dict[Key, Object] = {}

    def put(self, group: Object) -> None:
        self.served = True
        self._known[key_of(group)] = group

    def remove(self, group: Object) -> None:
        self._known.pop(key_of(group), None)

    def is_missing(self, pod: Pod) -> bool:
        """Whether the pod has to wait for its group."""
        name = group_name(pod.document) if self.served else ""
        return bool(name) and (pod.key[0], name) not in self._known

    def consumer(self, pod: Pod, entry: Object) -> Object:
        """Whom the claim of an entry of the pod is reserved for, as it stands in `reservedFor`."""
        name = group_name(pod.document) if self._have_claims else ""
        group = self._known.get((pod.key[0], name)) if name else None
        if group is not None and has_entry(group, entry):
            return {"apiGroup": API_GROUP, "resource": PLURAL, "name": name, "uid": group["metadata"].get("uid")}
        return {"resource": "pods", "name": pod.key[1], "uid": pod.uid}
