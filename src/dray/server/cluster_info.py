"""Publishing of the cluster info, which a machine reads before it joins: see `dray.client.cluster_info`.

It says where the server is and which authority to trust, and no secret. Everybody who reaches the port may read it,
without credentials: the role and its binding are those that kubeadm makes, under another name.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object
from dray.client.cluster_info import KEY, NAME, NAMESPACE
from dray.server import bootstrap
from dray.server.authorization import ANONYMOUS
from dray.server.context import Context
from dray.server.security.kubeconfig import without_credentials
from dray.yaml.writing import as_yaml

_ROLE: Final = "dray:cluster-info"
_RBAC: Final = "rbac.authorization.k8s.io"


async def publish(context: Context, server: str, authority: bytes) -> None:
    text = as_yaml([without_credentials(server, authority)])
    await bootstrap.publish(context, NAMESPACE, NAME, {KEY: text})
    for document in _reading():
        await bootstrap.create(context, document)


def _reading() -> tuple[Object, Object]:
    metadata = {"name": _ROLE, "namespace": NAMESPACE}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get"]}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _ROLE},
        "subjects": [{"kind": "User", "apiGroup": _RBAC, "name": ANONYMOUS.name}],
    }
    return role, binding
