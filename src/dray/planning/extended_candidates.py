"""Fewer devices for pods that request them as extended resources, such as `nvidia.com/gpu: 8`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from dray.api.objects import Object, mapping, mappings, spec_of
from dray.api.quantity import Quantity, QuantityError
from dray.planning.changes import Change, Steps
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene
from dray.scheduling.cluster.extended import is_extended

_CONTAINERS: Final = ("containers", "initContainers")
_AMOUNTS: Final = ("requests", "limits")


def fewer_extended(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields pods whose containers request fewer devices of an extended resource, wherever they request so many."""
    found: dict[tuple[str, int], None] = {}
    for pod in waiting:
        spec = spec_of(pod.document)
        containers = (container for member in _CONTAINERS for container in mappings(spec.get(member)))
        for name, amount in (item for container in containers for item in _amounts(container)):
            found |= {(name, number): None for number in _numbers(amount) if is_extended(name)}
    for name, number in found:
        yield from Steps(range(number - 1, 0, -1), partial(_fewer, name, number)).doubling()


def _amounts(container: Object) -> Iterator[tuple[str, object]]:
    for member in _AMOUNTS:
        yield from mapping(mapping(container.get("resources")).get(member)).items()


def _numbers(amount: object) -> Iterator[int]:
    try:
        number = Quantity.parse(str(amount)).as_int64()
    except QuantityError:
        return
    if number is not None and number > 1:
        yield number


def _fewer(name: str, before: int, number: int) -> Change:
    def apply(scene: Scene) -> Scene:
        return scene.with_wanted(Pod=[_with(each, name, before, number) for each in scene.wanted.get("Pod", ())])

    return Change("FewerDevices", f"request {number} instead of {before} {name}", apply)


def _with(pod: Object, name: str, before: int, number: int) -> Object:
    spec = spec_of(pod)
    changed = {
        member: [_container(each, name, before, number) for each in mappings(spec.get(member))]
        for member in _CONTAINERS
        if member in spec
    }
    return {**pod, "spec": {**spec, **changed}}


def _container(container: Object, name: str, before: int, number: int) -> Object:
    resources = mapping(container.get("resources"))
    changed = {}
    for member in _AMOUNTS:
        amounts = mapping(resources.get(member))
        if before in _numbers(amounts.get(name)):
            changed[member] = {**amounts, name: str(number)}
    return {**container, "resources": {**resources, **changed}} if changed else container
