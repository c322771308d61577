"""Names of nodes that were certified: the server's side of `dray.api.node_certificates`.

The signer asks here before it signs, and records the name before the certificate is stored. The record goes with the
Node: whoever may delete a Node thereby lets another machine take its name.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import Final

from dray.api import node_certificates
from dray.api.intake import Place
from dray.api.objects import Object
from dray.client.clock import timestamp
from dray.process.tasks import end_tasks
from dray.server import bootstrap, deletion, documents, status
from dray.server.context import Context
from dray.server.resources import Resource, key_prefix

_NODES: Final = key_prefix("", "nodes")
_RECORDS: Final = f"{key_prefix('', 'configmaps')}{node_certificates.NAMESPACE}/"
_log = logging.getLogger("dray.server")


class NodeNames:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        context.observe(_NODES, self._observe)

    def start(self) -> None:
        """Deletes records of certificates that have expired."""
        for stored in self._context.store.list(_RECORDS).records:
            record = documents.decode(stored.value)
            if node_certificates.is_record(record) and node_certificates.has_expired(record, self._context.clock()):
                self._begin_to_forget(node_certificates.node_of(record))

    async def close(self) -> None:
        await end_tasks(self._tasks)

    def refusal(self, node: str, key_hash: str) -> str:
        """Returns why a machine with this key does not get the name; empty if it gets the name."""
        return node_certificates.refusal(
            node,
            self._find(node),
            node_exists=self.exists(node),
            key_hash=key_hash,
            now=self._context.clock(),
        )

    def exists(self, node: str) -> bool:
        return self._context.store.get(_NODES + node) is not None

    async def record(self, node: str, key_hash: str, expires: datetime) -> None:
        made = node_certificates.record(node, key_hash, timestamp(expires))
        metadata = made["metadata"]
        await bootstrap.publish(self._context, metadata["namespace"], metadata["name"], made["data"])

    def _find(self, node: str) -> Object | None:
        record = self._context.store.get(_RECORDS + node_certificates.record_name(node))
        return None if record is None else documents.decode(record.value)

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        node = key.removeprefix(_NODES)
        if obj is None and self._find(node) is not None:
            self._begin_to_forget(node)

    def _begin_to_forget(self, node: str) -> None:
        task = asyncio.get_running_loop().create_task(self._forget(node), name="node-names")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forget(self, node: str) -> None:
        resource = self._context.registry.of_kind("v1", "ConfigMap")
        assert resource is not None
        name = node_certificates.record_name(node)
        try:
            await deletion.delete(
                self._context,
                resource,
                Place(node_certificates.NAMESPACE, name),
                deletion.DeleteOptions(),
                admitted=True,
            )
        except status.ApiError as error:
            if error.code != 404:
                _log.warning("ConfigMap %s/%s cannot be deleted: %s", node_certificates.NAMESPACE, name, error.message)
