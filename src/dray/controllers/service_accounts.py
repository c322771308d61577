"""The ServiceAccount controller: every active namespace has a service account `default`."""

from __future__ import annotations

from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, status_of
from dray.client.cache import Change
from dray.client.errors import AlreadyExists, ApiError, NotFound
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NAMESPACES

ACCOUNT: Final = "default"


class ServiceAccountController(QueueController[str]):
    """Keyed by the names of namespaces."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers("service accounts", self.reconcile, called=named("Namespace"))
        self._kind = built_in("v1", "ServiceAccount")
        self._accounts = environment.informers.of(self._kind)
        self._namespaces = environment.informers.of(NAMESPACES)
        self._accounts.add_handler(self._account_changed)
        self._namespaces.add_handler(self._namespace_changed)

    def _account_changed(self, change: Change) -> None:
        if change.type == "DELETED" and change.key[1] == ACCOUNT:
            self._workers.queue.add(change.key[0])

    def _namespace_changed(self, change: Change) -> None:
        name = change.key[1]
        if change.type != "DELETED" and self._accounts.cache.get(ACCOUNT, namespace=name) is None:
            self._workers.queue.add(name)

    async def reconcile(self, name: str) -> None:
        namespace = self._namespaces.cache.get(name)
        if namespace is None or not _is_active(namespace):
            return
        if self._accounts.cache.get(ACCOUNT, namespace=name) is not None:
            return
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": name}}
        try:
            await self._client.create(self._kind, account)
        except (AlreadyExists, NotFound):
            pass
        except ApiError as error:
            if not error.is_namespace_ending:
                raise


def _is_active(namespace: Object) -> bool:
    phase = status_of(namespace).get("phase")
    return not namespace["metadata"].get("deletionTimestamp") and phase in (None, "Active")
