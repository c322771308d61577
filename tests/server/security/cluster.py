"""A small cluster in a dictionary, and a clock that stands still until it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dray.api.objects import Object
from dray.server.authorization import AUTHENTICATED, User
from dray.server.security.node_authorizer import NodeAuthorizer
from dray.server.security.node_restriction import Write, restrict
from dray.server.security.users import NODES


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)


class Cluster:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], Object] = {}

    def put(self, group: str, resource: str, obj: Object) -> Object:
        metadata = obj["metadata"]
        metadata.setdefault("uid", f"uid-of-{resource}-{metadata['name']}")
        self.objects[(group, resource, metadata.get("namespace", ""), metadata["name"])] = obj
        return obj

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return self.objects.get((group, resource, namespace, name))

    def pods_on(self, node: str) -> Iterable[Object]:
        pods = (obj for (group, resource, _, _), obj in self.objects.items() if (group, resource) == ("", "pods"))
        return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def pod(name: str, node: str = "", namespace: str = "default", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"nodeName": node, **spec}, "status": {}}


def secret(name: str, namespace: str) -> Object:
    return {"name": name, "namespace": namespace}


def put_volume(cluster: Cluster, claim: str, **source: Object) -> None:
    """A claim, and the volume that it is bound to."""
    name = f"pv-{claim}"
    bound = {"metadata": {"name": claim, "namespace": "default"}, "spec": {"volumeName": name}}
    cluster.put("", "persistentvolumeclaims", bound)
    reference = {"namespace": "default", "name": claim}
    cluster.put("", "persistentvolumes", {"metadata": {"name": name}, "spec": {"claimRef": reference, **source}})


def two_nodes() -> Cluster:
    """Two nodes with a pod each, and what the pods refer to."""
    cluster = Cluster()
    cluster.put("", "nodes", {"metadata": {"name": "n1", "uid": "node-1"}})
    mine = pod(
        "mine",
        "n1",
        serviceAccountName="runner",
        resourceClaims=[{"name": "a", "resourceClaimName": "named"}, {"name": "b", "resourceClaimTemplateName": "t"}],
        imagePullSecrets=[{"name": "pull"}],
        volumes=[
            {"name": "v", "secret": {"secretName": "volume"}},
            {"name": "c", "configMap": {"name": "settings"}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}},
            {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
        containers=[{"name": "x", "envFrom": [{"secretRef": {"name": "env"}}]}],
        initContainers=[{"name": "i", "env": [{"valueFrom": {"secretKeyRef": {"name": "init"}}}]}],
    )
    mine["status"] = {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "generated"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    }
    cluster.put("", "pods", mine)
    put_volume(cluster, "data", csi={"driver": "csi.example.com", "nodeStageSecretRef": secret("stage", "storage")})
    put_volume(cluster, "mine-e", rbd={"secretRef": {"name": "ceph"}})
    put_volume(cluster, "theirs", azureFile={"secretName": "azure"})
    driver = {"metadata": {"name": "csi.example.com"}, "spec": {"tokenRequests": [{"audience": "store"}]}}
    cluster.put("storage.k8s.io", "csidrivers", driver)
    for name, on in (("a1", "n1"), ("a2", "n2")):
        cluster.put("storage.k8s.io", "volumeattachments", {"metadata": {"name": name}, "spec": {"nodeName": on}})
    other = pod("other", "n2", resourceClaims=[{"name": "a", "resourceClaimName": "theirs"}])
    cluster.put("", "pods", other)
    cluster.put("", "pods", pod("waiting"))
    cluster.put("resource.k8s.io", "resourceslices", {"metadata": {"name": "s1"}, "spec": {"nodeName": "n1"}})
    cluster.put("resource.k8s.io", "resourceslices", {"metadata": {"name": "s2"}, "spec": {"nodeName": "n2"}})
    cluster.put("resource.k8s.io", "resourceslices", {"metadata": {"name": "s0"}, "spec": {"allNodes": True}})
    return cluster


def node_user(name: str) -> User:
    return User(f"system:node:{name}", (NODES, AUTHENTICATED))


def user(name: str, *groups: str) -> User:
    return User(name, (*groups, AUTHENTICATED))


N1 = node_user("n1")


def refused(cluster: Cluster, operation: str, group: str, what: str, *, who: User = N1, **rest: Any) -> str | None:
    resource, _, subresource = what.partition("/")
    fields = {"namespace": "", "name": "", **rest}
    write = Write(operation, group, resource, subresource, **fields)
    return restrict(who, write, cluster, NodeAuthorizer(cluster, ()))
