"""Controllers that keep one object of a certain name in every active namespace."""

from __future__ import annotations

from dray.api.catalogue import KindVersion
from dray.api.objects import Object, is_deleting, status_of
from dray.client.cache import Change
from dray.client.errors import AlreadyExists, ApiError, NotFound
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NAMESPACES


class NamespaceObjectController(QueueController[str]):
    """Keyed by the names of namespaces. `wanted` says what the object holds, `differs` what must not stay as it is."""

    def __init__(self, environment: Environment, title: str, kind: KindVersion, name: str) -> None:
        super().__init__(environment)
        self._workers = environment.workers(title, self.reconcile, called=named("Namespace"))
        self._kind = kind
        self._name = name
        self._objects = environment.informers.of(kind, fields=f"metadata.name={name}")
        self._namespaces = environment.informers.of(NAMESPACES)
        self._objects.add_handler(self._object_changed)
        self._namespaces.add_handler(self._namespace_changed)

    def wanted(self) -> Object | None:
        """Returns the wanted members besides the name; None if they are not known yet."""
        return {}

    def differs(self, found: Object, wanted: Object) -> bool:
        return False

    def _object_changed(self, change: Change) -> None:
        self._workers.queue.add(change.key[0])

    def _namespace_changed(self, change: Change) -> None:
        name = change.key[1]
        if change.type != "DELETED" and self._objects.cache.get(self._name, namespace=name) is None:
            self._workers.queue.add(name)

    async def reconcile(self, name: str) -> None:
        namespace, wanted = self._namespaces.cache.get(name), self.wanted()
        if namespace is None or wanted is None or not _is_active(namespace):
            return
        found = self._objects.cache.get(self._name, namespace=name)
        if found is not None:
            if self.differs(found, wanted):
                await self._client.update(self._kind, {**found, **wanted})
            return
        metadata = {"name": self._name, "namespace": name}
        made = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata, **wanted}
        try:
            await self._client.create(self._kind, made)
        except (AlreadyExists, NotFound):
            pass
        except ApiError as error:
            if not error.is_namespace_ending:
                raise


def _is_active(namespace: Object) -> bool:
    return not is_deleting(namespace) and status_of(namespace).get("phase") in (None, "Active")
