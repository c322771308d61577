"""Flow control of requests over HTTP: each is classified, and waits for a turn in its priority level.

The seats of the server are divided among the levels by their shares; levels do not lend seats to each other. What asks
from within the process is not limited, nor what a pod or a node answers: one that is slow would keep the seats. A
FlowSchema says in its condition `Dangling` whether its level exists. Deleted mandatory objects are made again, and
changes of mandatory schemas are undone: administrators get in, however busy the server is.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dray.api.cluster_kinds import FLOW_CONTROL_GROUP
from dray.api.intake import Place
from dray.api.objects import Object, condition_of, spec_of
from dray.process.tasks import end_tasks
from dray.server import bootstrap, bootstrap_objects, documents, status, updates
from dray.server.context import Context
from dray.server.flow_control.levels import Level
from dray.server.flow_control.schemas import Flow, Schema
from dray.server.resources import Resource, key_prefix

SEATS: Final = 600
SCHEMA_HEADER: Final = "X-Kubernetes-PF-FlowSchema-UID"
LEVEL_HEADER: Final = "X-Kubernetes-PF-PriorityLevel-UID"
_SCHEMAS: Final = key_prefix(FLOW_CONTROL_GROUP, "flowschemas")
_LEVELS: Final = key_prefix(FLOW_CONTROL_GROUP, "prioritylevelconfigurations")
_CATCH_ALL: Final = "catch-all"
_MOST_KNOWN: Final = 4096
_LONGEST_KNOWN: Final = 1024


class FlowControl:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._schemas: list[Schema] = []
        self._levels: dict[str, Level] = {}
        # Classified flows since the last change.
        self._known: dict[Flow, tuple[Schema, Level] | None] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed = True
        for prefix in (_SCHEMAS, _LEVELS):
            context.observe(prefix, self._observe)

    async def start(self) -> None:
        await self._keep()

    async def close(self) -> None:
        await end_tasks([self._task] if self._task is not None else [])

    def classify(self, flow: Flow) -> tuple[Schema, Level] | None:
        """Returns schema and level of a request; None if it needs no seat, or before the mandatory objects exist."""
        if flow.is_lasting:
            return None
        if flow.size > _LONGEST_KNOWN:
            return self._classified(flow)
        if flow not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[flow] = self._classified(flow)
        return self._known[flow]

    def _classified(self, flow: Flow) -> tuple[Schema, Level] | None:
        for schema in self._schemas:
            if schema.level in self._levels and (schema.name == _CATCH_ALL or schema.matches(flow)):
                return schema, self._levels[schema.level]
        return None

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        self._changed = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep(), name="flow control")

    async def _keep(self) -> None:
        while self._changed:
            self._changed = False
            for document in bootstrap_objects.mandatory_flow_control():
                await self._restore(document)
            self._load()
            for record in self._context.store.list(_SCHEMAS).records:
                await self._tell(documents.decode(record.value))

    def _load(self) -> None:
        schemas = [Schema(documents.decode(record.value)) for record in self._context.store.list(_SCHEMAS).records]
        self._schemas = sorted(schemas, key=lambda each: (each.precedence, each.name))
        found: dict[str, Level] = {}
        for record in self._context.store.list(_LEVELS).records:
            name = record.key.removeprefix(_LEVELS)
            level = found[name] = self._levels.get(name) or Level(name)
            level.configure(documents.decode(record.value))
        self._levels = found
        self._known.clear()
        total = sum(level.shares for level in found.values()) or 1
        for level in found.values():
            level.allow(max(1, math.ceil(SEATS * level.shares / total)))

    async def _restore(self, document: Object) -> None:
        name, wanted = document["metadata"]["name"], spec_of(document)
        resource = self._context.registry.of_kind(document["apiVersion"], document["kind"])
        assert resource is not None
        # A failed write is repeated with the next change.
        with suppress(status.ApiError):
            await bootstrap.create(self._context, document)
            record = self._context.store.get(resource.key("", name))
            if document["kind"] != "FlowSchema" or record is None or spec_of(documents.decode(record.value)) == wanted:
                return
            await updates.modify(self._context, resource, Place(name=name), lambda obj: obj.update(spec=wanted))

    async def _tell(self, obj: Object) -> None:
        """Updates the condition `Dangling` of a schema."""
        schema = Schema(obj)
        there = schema.level in self._levels
        text = f'This FlowSchema references the PriorityLevelConfiguration object named "{schema.level}"'
        condition = {
            "type": "Dangling",
            "status": "False" if there else "True",
            "lastTransitionTime": self._context.now(),
            "reason": "Found" if there else "NotFound",
            "message": f"{text} and it exists" if there else f"{text} but there is no such object",
        }
        before = condition_of(obj, "Dangling") or {}
        if all(before.get(name) == condition[name] for name in ("status", "reason", "message")):
            return

        def change(found: Object) -> None:
            others = [
                condition
                for condition in found["status"].get("conditions") or ()
                if condition.get("type") != "Dangling"
            ]
            found["status"]["conditions"] = [*others, condition]

        resource = self._context.registry.find(FLOW_CONTROL_GROUP, "v1", "flowschemas")
        assert resource is not None
        # A deleted schema needs no condition.
        with suppress(status.ApiError):
            await updates.modify(self._context, resource, Place(name=schema.name), change)

    def collect(self) -> Iterator[Metric]:
        prefix, labels = "apiserver_flowcontrol_", ["priority_level"]
        seats = GaugeMetricFamily(f"{prefix}nominal_limit_seats", "Seats of a level.", labels=labels)
        executing = GaugeMetricFamily(f"{prefix}current_executing_seats", "Seats that are taken.", labels=labels)
        waiting = GaugeMetricFamily(f"{prefix}current_inqueue_requests", "Requests that wait.", labels=labels)
        dispatched = CounterMetricFamily(f"{prefix}dispatched_requests", "Requests that had a turn.", labels=labels)
        rejected = CounterMetricFamily(f"{prefix}rejected_requests", "Requests that got none.", labels=labels)
        for name, level in self._levels.items():
            seats.add_metric([name], level.limit or 0)
            executing.add_metric([name], level.executing)
            waiting.add_metric([name], level.waiting)
            dispatched.add_metric([name], level.dispatched)
            rejected.add_metric([name], level.rejected)
        yield from (seats, executing, waiting, dispatched, rejected)
