"""Keeping of ServiceCIDRs and IPAddresses: the server's own housekeeping, for which Kubernetes has controllers.

The ServiceCIDR `kubernetes` is the range of the server's option. A range that is deleted stays, not ready, until no
address in it is left without another range. An IPAddress comes and goes with its Service; what was missed is made up
for at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from dray.api.cluster_kinds import NETWORKING_GROUP
from dray.api.intake import Place
from dray.api.objects import Object, finalizers_of, is_deleting, labels_of, spec_of
from dray.api.service_addresses import HEADLESS
from dray.process.tasks import end_tasks
from dray.server import bootstrap, deletion, documents, status, updates
from dray.server.context import Context
from dray.server.deletion import DeleteOptions
from dray.server.resources import Resource, key_prefix
from dray.server.service_ranges import ADDRESSES, DEFAULT, FINALIZER, RANGES, networks_of, parent_of, ready

_SERVICES: Final = key_prefix("", "services")
_FAMILY: Final = "ipaddress.kubernetes.io/ip-family"
_MANAGED: Final = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
_IN_USE: Final = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)


class ServiceRanges:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None
        # The addresses of Services by key.
        self._held: dict[str, set[str]] = {}
        self._touched: set[str] = set()
        self._check_ranges = False
        for prefix in (_SERVICES, RANGES, ADDRESSES):
            context.observe(prefix, self._observe)

    async def start(self) -> None:
        """Applies changes that were missed while no server ran."""
        services = {record.key for record in self._context.store.list(_SERVICES).records}
        for name, each in self._all(ADDRESSES):
            if labels_of(each).items() >= _MANAGED.items() and (parent := parent_of(each)) is not None:
                self._held.setdefault(_SERVICES + "/".join(parent), set()).add(name)
        self._touched |= services | self._held.keys()
        self._check_ranges = True
        await self._keep()

    async def close(self) -> None:
        await end_tasks([self._task] if self._task is not None else [])

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if resource.key_prefix == _SERVICES:
            self._touched.add(key)
        elif obj is None or is_deleting(obj):
            self._check_ranges = True
            name = key.removeprefix(ADDRESSES)
            self._touched |= {service for service, names in self._held.items() if name in names}
        due = self._touched or self._check_ranges
        if due and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._keep(), name="service ranges")

    async def _keep(self) -> None:
        while self._touched or self._check_ranges:
            if self._check_ranges:
                self._check_ranges = False
                await self._keep_default()
                for _, each in self._all(RANGES):
                    if is_deleting(each):
                        await self._release(each)
            while self._touched:
                await self._settle(self._touched.pop())

    async def _settle(self, key: str) -> None:
        """Creates the IPAddresses of a Service, and deletes those that it no longer has."""
        namespace, _, name = key.removeprefix(_SERVICES).partition("/")
        service = self._read(key)
        given = spec_of(service).get("clusterIPs") if service is not None else ()
        wanted = {str(ip_address(address)) for address in given or () if address != HEADLESS}
        for address in sorted(wanted):
            await bootstrap.create(self._context, _address(address, namespace, name))
        for address in self._held.pop(key, set()) - wanted:
            found = self._read(ADDRESSES + address)
            if found is not None and parent_of(found) == (namespace, name):
                await self._delete(address)
        if wanted:
            self._held[key] = wanted

    async def _keep_default(self) -> None:
        context = self._context
        document: Object = {
            "apiVersion": f"{NETWORKING_GROUP}/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": DEFAULT},
            "spec": {"cidrs": [context.service_range]},
        }
        await bootstrap.create(context, document)
        found = self._read(RANGES + DEFAULT)
        if found is None or spec_of(found) == document["spec"]:
            return

        def change(obj: Object) -> None:
            obj["spec"] = document["spec"]

        await updates.modify(context, self._resource("servicecidrs"), Place(name=DEFAULT), change)

    async def _release(self, service_range: Object) -> None:
        """Removes the finalizer of a deleted range once its addresses are not needed."""
        name = service_range["metadata"]["name"]
        others = [network for _, each in self._all(RANGES) if not is_deleting(each) for network in networks_of(each)]
        held = any(
            _inside(address, networks_of(service_range)) and not _inside(address, others)
            for address, _ in self._all(ADDRESSES)
        )

        def change(obj: Object) -> None:
            if held:
                now = self._context.now()
                condition = {**ready(now), "status": "False", "reason": "Terminating", "message": _IN_USE}
                before = (obj["status"].get("conditions") or [{}])[0]
                if before.get("status") != "False":
                    obj["status"]["conditions"] = [condition]
            else:
                kept = [finalizer for finalizer in finalizers_of(obj) if finalizer != FINALIZER]
                obj["metadata"].pop("finalizers", None)
                obj["metadata"] |= {"finalizers": kept} if kept else {}

        await updates.modify(self._context, self._resource("servicecidrs"), Place(name=name), change)

    async def _delete(self, address: str) -> None:
        try:
            await deletion.delete(self._context, self._resource("ipaddresses"), Place(name=address), DeleteOptions())
        except status.ApiError as error:
            if error.code != 404:
                raise

    def _all(self, prefix: str) -> Iterable[tuple[str, Object]]:
        """Yields names and objects."""
        for record in self._context.store.list(prefix).records:
            yield record.key.removeprefix(prefix), documents.decode(record.value)

    def _read(self, key: str) -> Object | None:
        record = self._context.store.get(key)
        return None if record is None else documents.decode(record.value)

    def _resource(self, plural: str) -> Resource:
        found = self._context.registry.find(NETWORKING_GROUP, "v1", plural)
        assert found is not None
        return found


def _inside(address: str, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(ip_address(address) in network for network in networks)


def _address(name: str, namespace: str, service: str) -> Object:
    return {
        "apiVersion": f"{NETWORKING_GROUP}/v1",
        "kind": "IPAddress",
        "metadata": {"name": name, "labels": {**_MANAGED, _FAMILY: f"IPv{ip_address(name).version}"}},
        "spec": {"parentRef": {"group": "", "resource": "services", "namespace": namespace, "name": service}},
    }
