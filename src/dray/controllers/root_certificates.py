"""The publisher of the root certificate: every active namespace has a ConfigMap `kube-root-ca.crt`.

Pods find in it whom to trust when they speak with the API server. What it holds comes from the one in `kube-system`,
which the server writes at its start; where that one is deleted it comes back with what it held last.
"""

from __future__ import annotations

from dray.api.catalogue import built_in
from dray.api.objects import Object
from dray.api.root_certificate import NAME, NAMESPACE
from dray.client.cache import Change
from dray.controllers.environment import Environment
from dray.controllers.namespace_objects import NamespaceObjectController


class RootCertificatePublisher(NamespaceObjectController):
    def __init__(self, environment: Environment) -> None:
        self._data: Object | None = None
        super().__init__(environment, "root certificates", built_in("v1", "ConfigMap"), NAME)

    def wanted(self) -> Object | None:
        return {"data": self._data} if self._data is not None else None

    def differs(self, found: Object, wanted: Object) -> bool:
        return bool(found.get("data") != wanted["data"])

    def _object_changed(self, change: Change) -> None:
        data = change.object.get("data")
        if change.key[0] == NAMESPACE and change.type != "DELETED" and data and data != self._data:
            self._data = data
            for namespace in self._namespaces.cache:
                self._workers.queue.add(namespace["metadata"]["name"])
        super()._object_changed(change)
