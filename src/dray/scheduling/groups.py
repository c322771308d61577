"""PodGroups as the scheduler knows them: which pods have to wait for theirs, and which claims are the group's own.

A claim that a pod names just as its group does is the group's: it is reserved for the group, once for all its pods.
"""

from __future__ import annotations

from typing import Final

from dray.api.gates import FeatureGates
from dray.api.objects import Object
from dray.scheduling.interests import waiting_key
from dray.scheduling.model import Key, Pod, key_of

API_GROUP: Final = "scheduling.k8s.io"
PLURAL: Final = "podgroups"
_ENTRY: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")


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

    def missing(self, pod: Object) -> Key | None:
        """Of the group that the pod has to wait for: a key that no claim has."""
        name = group_name(pod) if self.served else ""
        if not name:
            return None
        key = pod["metadata"].get("namespace") or "", name
        return None if key in self._known else waiting_key(PLURAL, key)

    def consumer(self, pod: Pod, entry: Object) -> Object:
        """Whom the claim of an entry of the pod is reserved for, as it stands in `reservedFor`."""
        name = group_name(pod.document) if self._have_claims else ""
        group = self._known.get((pod.key[0], name)) if name else None
        if group is not None and _lists(group, entry):
            return {"apiGroup": API_GROUP, "resource": PLURAL, "name": name, "uid": group["metadata"].get("uid")}
        return {"resource": "pods", "name": pod.key[1], "uid": pod.uid}


def group_name(pod: Object) -> str:
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""


def _lists(group: Object, entry: Object) -> bool:
    """Whether the group has the same entry: same name, same claim or template."""
    wanted = [entry.get(member) or "" for member in _ENTRY]
    listed = (group.get("spec") or {}).get("resourceClaims") or ()
    return any([each.get(member) or "" for member in _ENTRY] == wanted for each in listed)
