"""Registers the nodes of a fleet as their kubelets would.

What is there already and as it should be is not written again, so that a restart costs a list and nothing more. Nodes
of a fleet that was larger before are deleted: a fleet is what its description says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from dray.api.objects import Object, annotations_of, labels_of, spec_of
from dray.client.api import ApiClient
from dray.client.errors import NotFound
from dray.client.interface import PatchType, WriteOptions
from dray.fleet.machine import MACHINE_TYPE, Machine
from dray.fleet.publication import NODES
from dray.fleet.stages import ANNOTATION

T = TypeVar("T")

_DIGEST: Final = f"{ANNOTATION}/digest"
"""Node annotation with a digest of what was registered."""
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_AS_FLEET: Final = WriteOptions("dray-fleet", force=True)
_AT_ONCE: Final = 16


async def register(client: ApiClient, machines: Mapping[str, Machine]) -> None:
    """Registers all machines as nodes and deletes others; can be called again."""
    listed = await client.list_all(NODES)
    present = {item["metadata"]["name"]: item for item in listed["items"]}
    gone = [each for name, each in present.items() if name not in machines and MACHINE_TYPE in labels_of(each)]
    await _each(gone, lambda node: _delete(client, node))
    await _each(machines.values(), lambda machine: _register(client, machine, present.get(machine.name)))


async def _register(client: ApiClient, machine: Machine, present: Object | None) -> None:
    node = machine.node()
    digest = sha256(msgspec.json.encode(node, order="sorted")).hexdigest()[:16]
    if present is not None and annotations_of(present).get(_DIGEST) == digest:
        return
    node["metadata"]["annotations"] = {_DIGEST: digest}
    status = node.pop("status")
    stored = await client.apply(NODES, node, options=_AS_FLEET)
    body = {"status": status}
    await client.patch(NODES, machine.name, body, patch_type=PatchType.STRATEGIC, subresource="status")
    taints = spec_of(stored).get("taints") or []
    left = [taint for taint in taints if taint.get("key") != _NOT_READY]
    if len(left) < len(taints):
        await client.patch(NODES, machine.name, {"spec": {"taints": left or None}})


async def _delete(client: ApiClient, node: Object) -> None:
    with suppress(NotFound):
        await client.delete_object(NODES, node)


async def _each(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Runs the work for all items, a limited number at a time."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(worker())
