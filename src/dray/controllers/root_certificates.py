"""The publisher of the root certificate: every active namespace has a ConfigMap `kube-root-ca.crt`.

Pods find in it whom to trust when they speak with the API server. It comes from the first of these that there is: what
the administrator gave, the ConfigMap in `kube-system`, the authority that this process trusts itself. dray's server
writes the one in `kube-system` at its start; a kube-apiserver does not. Where it is deleted it comes back.
"""

from __future__ import annotations

import logging

from dray.api.catalogue import built_in
from dray.api.objects import Object
from dray.api.root_certificate import KEY, NAME, NAMESPACE
from dray.client.cache import Change
from dray.controllers.environment import Environment
from dray.controllers.namespace_objects import NamespaceObjectController

_logger = logging.getLogger("dray.controllers")


class RootCertificatePublisher(NamespaceObjectController):
    def __init__(self, environment: Environment) -> None:
        self._root = environment.root
        self._data: Object | None = {KEY: self._root.text} if self._root.given else None
        super().__init__(environment, "root certificates", built_in("v1", "ConfigMap"), NAME)

    async def run(self) -> None:
        if self._data is None:
            self._fall_back()
        await super().run()

    def wanted(self) -> Object | None:
        return {"data": self._data} if self._data is not None else None

    def differs(self, found: Object, wanted: Object) -> bool:
        return bool(found.get("data") != wanted["data"])

    def _fall_back(self) -> None:
        if self._root.text:
            _logger.info("%s has the authority that this process trusts, because kube-system has none", NAME)
            self._take({KEY: self._root.text})
        else:
            _logger.warning(
                "%s is not published, and pods that mount a service account token wait for it: kube-system has none, "
                "and no authority is known; give --root-ca-file",
                NAME,
            )

    def _take(self, data: Object) -> None:
        self._data = data
        for namespace in self._namespaces.cache:
            self._workers.queue.add(namespace["metadata"]["name"])

    def _object_changed(self, change: Change) -> None:
        data = change.object.get("data")
        is_source = change.key[0] == NAMESPACE and not self._root.given
        if is_source and change.type != "DELETED" and data and data != self._data:
            self._take(data)
        super()._object_changed(change)
