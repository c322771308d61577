"""Publishes the slices of simulated machines, with taints on the devices that have failed.

One reconciler for the pools of all machines, keyed by node and driver. A slice that somebody changes or deletes is
repaired. A device fails by the rules for devices, or because an annotation of its node names it, and recovers when they
say so. Slices belong to their node: they go with it, and come back with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from random import Random
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, annotations_of, metadata_of, spec_of, version_of
from dray.client.cache import Change
from dray.client.clock import moment
from dray.client.errors import NotFound
from dray.controllers.environment import Environment, Workers
from dray.fleet.choice import Chosen
from dray.fleet.machine import Machine
from dray.fleet.outages import Outages, soonest
from dray.fleet.pools import Pools, SliceContent, pools_of, slice_name, slice_of
from dray.fleet.stages import ANNOTATION, DEFAULT_TAINT, DeviceStage

FAILED_DEVICES: Final = f"{ANNOTATION}/failed-devices"
"""Node annotation with the names of failed devices, comma-separated; `driver/name` limits one to a driver."""

PoolKey = tuple[str, str]
SLICES: Final = built_in("resource.k8s.io/v1", "ResourceSlice")
NODES: Final = built_in("v1", "Node")
State = tuple[int, dict[str, list[Object]]]
"""(generation, taints by device) of a pool."""
_BY_POOL: Final = "simulated pool"


class Publication:
    def __init__(self, environment: Environment, chosen: Chosen) -> None:
        self._client = environment.client
        self._time = environment.time
        self._machines = chosen.by_name()
        self._stages = chosen.stages.devices
        self._seed = chosen.seed
        self._pools: dict[str, Pools] = {}
        self._own: dict[str, Object] = {}
        """Slices that were written here and are not in the informer's cache yet."""
        self._equal: dict[str, tuple[int, State]] = {}
        """Maps each slice to the version that was found to be correct, and the wanted state."""
        self._outages: dict[PoolKey, dict[str, list[tuple[Object, Outages]]]] = {}
        self._workers: Workers[PoolKey] = environment.workers(
            "simulated drivers", self.reconcile, called=lambda key: f"pool {key[0]} of {key[1]}", count=16
        )
        self._nodes = environment.informers.of(NODES)
        self._slices = environment.informers.of(SLICES, {_BY_POOL: _pool_of})
        self._nodes.add_handler(self._node_changed)
        self._slices.add_handler(self._slice_changed)

    async def run(self) -> None:
        await self._workers.run()

    async def settled(self) -> None:
        """Returns when there is nothing to publish for the moment."""
        await self._workers.queue.drained()

    def pools(self, machine: Machine) -> Pools:
        if machine.name not in self._pools:
            self._pools[machine.name] = pools_of(machine)
        return self._pools[machine.name]

    def _node_changed(self, change: Change) -> None:
        machine = self._machines.get(change.key[1])
        if machine is None or change.type == "DELETED":
            return
        before = change.previous and annotations_of(change.previous).get(FAILED_DEVICES)
        if change.type == "ADDED" or before != annotations_of(change.object).get(FAILED_DEVICES):
            for driver in self.pools(machine):
                self._workers.queue.add((machine.name, driver))

    def _slice_changed(self, change: Change) -> None:
        spec, own = spec_of(change.object), self._own.get(change.key[1])
        if own is not None and version_of(change.object) >= version_of(own):
            del self._own[change.key[1]]
        if spec.get("nodeName") in self._machines:
            self._workers.queue.add((spec["nodeName"], spec["driver"]))

    async def reconcile(self, key: PoolKey) -> float | None:
        name, driver = key
        node, machine = self._nodes.cache.get(name), self._machines[name]
        contents = self.pools(machine).get(driver)
        if node is None or contents is None or metadata_of(node).get("deletionTimestamp"):
            return None
        began = moment(metadata_of(node)["creationTimestamp"])
        time = (self._time.now() - began).total_seconds()
        taints, change = self._taints(key, contents, node, time)
        present = {slice_["metadata"]["name"]: slice_ for slice_ in self._slices.cache.by(_BY_POOL, f"{name}/{driver}")}
        names = [slice_name(machine, driver, number) for number in range(len(contents))]
        present |= {own_name: self._own[own_name] for own_name in names if own_name in self._own}
        for surplus in present.keys() - set(names):
            await self._delete(present.pop(surplus))
        generation = _generation(names, present)
        for number, content in enumerate(contents):
            made = slice_of(machine, driver, number, len(contents), _tainted(content, taints), node)
            made["spec"]["pool"]["generation"] = generation
            await self._write(made, present.get(names[number]))
        return max(change - time, 0.05) if change is not None else None

    async def _write(self, made: Object, before: Object | None) -> None:
        name = made["metadata"]["name"]
        # Most slices of a pool stay as they are, and comparing them costs more than all else.
        state = (made["spec"]["pool"]["generation"], _taints_in(made))
        if before is not None and self._equal.get(name) == (version_of(before), state):
            return
        if before is None:
            before = self._written(await self._client.create(SLICES, made))
        elif _differs(made, before):
            version = before["metadata"]["resourceVersion"]
            metadata = {**made["metadata"], "uid": before["metadata"]["uid"], "resourceVersion": version}
            before = self._written(await self._client.update(SLICES, {**made, "metadata": metadata}))
        self._equal[name] = (version_of(before), state)

    def _written(self, stored: Object) -> Object:
        name = stored["metadata"]["name"]
        seen = self._slices.cache.get(name)
        if seen is None or version_of(seen) < version_of(stored):
            self._own[name] = stored
        return stored

    async def _delete(self, slice_: Object) -> None:
        with suppress(NotFound):
            await self._client.delete_object(SLICES, slice_)

    def _taints(
        self, key: PoolKey, contents: tuple[SliceContent, ...], node: Object, time: float
    ) -> tuple[dict[str, list[Object]], float | None]:
        """Returns the taints by device, and the time of their next change; None for never."""
        found: dict[str, list[Object]] = {}
        changes: list[float | None] = []
        for device, rules in self._schedule(key, contents, node).items():
            for taint, outages in rules:
                down, change = outages.at(time)
                changes.append(change)
                if down and taint not in found.setdefault(device, []):
                    found[device].append(taint)
        for device in _named(node, key[1]):
            found.setdefault(device, []).append(dict(DEFAULT_TAINT))
        return {device: taints for device, taints in found.items() if taints}, soonest(changes)

    def _schedule(
        self, key: PoolKey, contents: tuple[SliceContent, ...], node: Object
    ) -> dict[str, list[tuple[Object, Outages]]]:
        if key not in self._outages:
            made: dict[str, list[tuple[Object, Outages]]] = {}
            for number, stage in enumerate(self._stages):
                if not stage.nodes.fits(node) or not fnmatchcase(key[1], stage.driver):
                    continue
                for device in _names(contents, stage):
                    chance = Random(f"{self._seed}/{key[0]}/{key[1]}/{device}/{number}")
                    made.setdefault(device, []).append((stage.taint, Outages(stage, chance)))
            self._outages[key] = made
        return self._outages[key]


def _names(contents: tuple[SliceContent, ...], stage: DeviceStage) -> list[str]:
    return [
        device["name"]
        for content in contents
        for device in content.devices
        if fnmatchcase(device["name"], stage.device)
    ]


def _named(node: Object, driver: str) -> list[str]:
    """Returns the driver's devices in the node's annotation, each once."""
    text = annotations_of(node).get(FAILED_DEVICES) or ""
    parts = [part.strip().rpartition("/") for part in text.split(",")]
    return sorted({device for domain, _, device in parts if device and domain in ("", driver)})


def _tainted(content: SliceContent, taints: Mapping[str, list[Object]]) -> SliceContent:
    if not any(device["name"] in taints for device in content.devices):
        return content
    devices = [
        {**device, "taints": taints[device["name"]]} if device["name"] in taints else device
        for device in content.devices
    ]
    return SliceContent(tuple(devices), content.shared_counters)


def _taints_in(slice_: Object) -> dict[str, list[Object]]:
    return {device["name"]: device["taints"] for device in slice_["spec"].get("devices") or () if "taints" in device}


def _generation(names: list[str], present: Mapping[str, Object]) -> int:
    """Returns the generation of the stored slices if they are complete, else a new one."""
    generations = {slice_["spec"]["pool"]["generation"] for slice_ in present.values()}
    if present.keys() == set(names) and len(generations) == 1:
        return int(generations.pop())
    return int(max(generations, default=0)) + 1


def _pool_of(slice_: Object) -> tuple[str, ...]:
    spec = spec_of(slice_)
    return (f"{spec['nodeName']}/{spec['driver']}",) if spec.get("nodeName") else ()


def _differs(wanted: Object, stored: Object) -> bool:
    return bool(_comparable(wanted["spec"]) != _comparable(stored["spec"]))


def _comparable(spec: Object) -> Object:
    """Returns the spec without `timeAdded` of taints, which the server sets."""
    if not any("taints" in device for device in spec.get("devices") or ()):
        return spec
    devices = []
    for device in spec["devices"]:
        taints = [{k: v for k, v in taint.items() if k != "timeAdded"} for taint in device.get("taints") or ()]
        devices.append({**device, "taints": taints} if taints else {k: v for k, v in device.items() if k != "taints"})
    return {**spec, "devices": devices}
