"""The objects that make a user of a cluster: namespace, account, rights, and optionally a queue with quota.

A user is a ServiceAccount in a namespace of the same name: its token works on any Kubernetes, and deleting the account
revokes it. Everything that belongs to a user carries the label `dray.dev/user`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.answers.explaining.unread_kinds import VIEWER
from dray.api.namespace_users import USER_LABEL
from dray.api.objects import Object

QUEUE_REQUIRED: Final = "dray.dev/queue-required"
RUN_AS_USER: Final = "dray.dev/run-as-user"
RUN_AS_GROUP: Final = "dray.dev/run-as-group"
ADMIN: Final = "cluster-admin"
EDITOR: Final = "edit"
FLAVOR: Final = "any"
COHORT: Final = "users"
LOCAL_QUEUE: Final = "default"
_AMPLE: Final = {"cpu": "1M", "memory": "1Pi", "ephemeral-storage": "1Pi"}
_KUEUE: Final = "kueue.x-k8s.io/v1beta2"
_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class NewUser:
    """`gpus` creates a ClusterQueue with this quota, for this user, or named `queue` for others too. Without `gpus`,
    the ClusterQueue `queue` exists already."""

    name: str
    gpus: int | None = None
    device_class: str = "gpu.nvidia.com"
    queue: str = ""
    admin: bool = False
    account: tuple[int, int] | None = None
    """The numbers of user and group of the machine that the user's pods run as."""

    def objects(self) -> list[Object]:
        """Returns the objects in the order in which they are created."""
        made = [self._namespace(), self._account(), self._token(), self._role_binding()]
        made.append(self._cluster_binding(VIEWER))
        if self.admin:
            made.append(self._cluster_binding(ADMIN))
        else:
            made.append(self._critical_pods())
        if self.gpus is not None:
            made += [_document(_KUEUE, "ResourceFlavor", {"name": FLAVOR}), self._cluster_queue()]
        if self.gpus is not None or self.queue:
            made.append(self._local_queue())
        return made

    def _namespace(self) -> Object:
        metadata = self._metadata(self.name)
        if self.gpus is not None or self.queue:
            metadata["labels"][QUEUE_REQUIRED] = "true"
        if self.account is not None:
            user, group = self.account
            metadata["annotations"] = {RUN_AS_USER: str(user), RUN_AS_GROUP: str(group)}
        return _document("v1", "Namespace", metadata)

    def _account(self) -> Object:
        return _document("v1", "ServiceAccount", self._metadata(self.name, self.name))

    def _token(self) -> Object:
        metadata = self._metadata(token_name(self.name), self.name)
        metadata["annotations"] = {"kubernetes.io/service-account.name": self.name}
        return {**_document("v1", "Secret", metadata), "type": "kubernetes.io/service-account-token"}

    def _role_binding(self) -> Object:
        return self._binding("RoleBinding", self._metadata(EDITOR, self.name), EDITOR)

    def _cluster_binding(self, role: str) -> Object:
        return self._binding("ClusterRoleBinding", self._metadata(f"{role}:{self.name}"), role)

    def _binding(self, kind: str, metadata: Object, role: str) -> Object:
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.name}
        return {
            **_document(f"{_RBAC}/v1", kind, metadata),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [subject],
        }

    def _critical_pods(self) -> Object:
        """Returns a quota that keeps the user from evicting pods of others by a critical priority class."""
        critical = {"scopeName": "PriorityClass", "operator": "In", "values": list(_CRITICAL)}
        spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [critical]}}
        return {**_document("v1", "ResourceQuota", self._metadata("critical-pods", self.name)), "spec": spec}

    def _cluster_queue(self) -> Object:
        """The quota can be lent to other users while it is idle, and is taken back when this user needs it.

        A queue admits only resources that it covers, so that cpu, memory and storage have a quota that nobody reaches.
        """
        resource = f"deviceclass.resource.kubernetes.io/{self.device_class}"
        resources = [{"name": resource, "nominalQuota": self.gpus}]
        resources += [{"name": name, "nominalQuota": amount} for name, amount in _AMPLE.items()]
        flavors = [{"name": FLAVOR, "resources": resources}]
        spec = {
            "cohortName": COHORT,
            "namespaceSelector": self._admitted(),
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": [resource, *_AMPLE], "flavors": flavors}],
        }
        # A queue for several users belongs to none of them, and stays when one is removed.
        metadata = {"name": self.queue} if self.queue else self._metadata(self.name)
        return {**_document(_KUEUE, "ClusterQueue", metadata), "spec": spec}

    def _admitted(self) -> Object:
        """Returns the selector of the namespaces that may use the queue."""
        if self.queue:
            return {"matchExpressions": [{"key": USER_LABEL, "operator": "Exists"}]}
        return {"matchLabels": {USER_LABEL: self.name}}

    def _local_queue(self) -> Object:
        spec = {"clusterQueue": self.queue or self.name}
        return {**_document(_KUEUE, "LocalQueue", self._metadata(LOCAL_QUEUE, self.name)), "spec": spec}

    def _metadata(self, name: str, namespace: str = "") -> Object:
        place = {"namespace": namespace} if namespace else {}
        return {"name": name, **place, "labels": {USER_LABEL: self.name}}


def token_name(user: str) -> str:
    return f"{user}-token"


def _document(api_version: str, kind: str, metadata: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
