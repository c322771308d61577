"""Resource requests of pods, as they count on a node, by Kubernetes' rules.

Regular containers run together with the sidecars (init containers that restart always); before that each init
container runs beside the sidecars started so far. A pod takes the most of any phase, its overhead comes on top, and
cpu, memory and huge pages that are stated for the pod as a whole replace what its containers come to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self, TypeVar

from dray.api.caches import remember
from dray.api.objects import Object, mapping, mappings
from dray.api.quantity import INT64_MAX, Quantity, QuantityError

Nanos = dict[str, int]

_UNIT: Final = 10**9
_MILLI: Final = 10**6
_ASSUMED: Final[Mapping[str, int]] = {"cpu": 100 * _MILLI, "memory": 200 * 1024 * 1024 * _UNIT}
"""Requests that scoring assumes for a container without any."""


class Amount(Protocol):
    def __add__(self, other: Self, /) -> Self: ...

    def __lt__(self, other: Self, /) -> bool: ...


A = TypeVar("A", bound=Amount)


def is_sidecar(init_container: Object) -> bool:
    return init_container.get("restartPolicy") == "Always"


def effective(spec: Object, read: Callable[[Object], dict[str, A]]) -> dict[str, A]:
    """Returns the effective requests by resource; `read` returns a fresh dictionary of one container's requests.

    Init containers run one after the other, beside the sidecars that were started before them.
    """
    total: dict[str, A] = {}
    for container in mappings(spec.get("containers")):
        _add(total, read(container))
    sidecars: dict[str, A] = {}
    most: dict[str, A] = {}
    for container in mappings(spec.get("initContainers")):
        own = read(container)
        if is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            _raise(most, sidecars)
        else:
            _add(own, sidecars)
            _raise(most, own)
    _raise(total, most)
    return total


def _add(total: dict[str, A], amounts: Mapping[str, A]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, A], amounts: Mapping[str, A]) -> None:
    for name, amount in amounts.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def requests(spec: Object) -> dict[str, int]:
    """Returns the effective requests: cpu in thousandths, others in whole units, rounded up, without zeros."""
    return whole(_total(spec, {}))


def scoring(spec: Object) -> dict[str, int]:
    """Returns cpu and memory, with assumed values for containers without requests."""
    stated = _of_the_pod(spec)
    plain = _total(spec, {}) if stated else {}
    total = whole(_total(spec, {name: amount for name, amount in _ASSUMED.items() if name not in plain}))
    return {name: total[name] for name in _ASSUMED if name in total}


def stated(spec: Object) -> dict[str, int]:
    """Returns the pod-level requests, in the units of `requests`."""
    return whole(_of_the_pod(spec))


def of_containers(spec: Object) -> dict[str, int]:
    """Returns the sum for the containers, without pod-level requests, in the units of `requests`."""
    return whole(_of_all_containers(spec, {}))


def whole(amounts: Mapping[str, int]) -> dict[str, int]:
    """Converts nanos to scheduler units (rounded up, at most 64 bits) and leaves out zeros."""
    return {
        name: min(INT64_MAX, -(-nanos // (_MILLI if name == "cpu" else _UNIT)))
        for name, nanos in amounts.items()
        if nanos > 0
    }


def container_requests(container: Object) -> Object:
    """Returns the container's requests as written."""
    return mapping(mapping(container.get("resources")).get("requests"))


def amounts(written: Any) -> dict[str, int]:
    """Converts a ResourceList to the units of the scheduler."""
    return whole(_nanos(mapping(written)))


def _total(spec: Object, assumed: Mapping[str, int]) -> Nanos:
    total = _of_all_containers(spec, assumed)
    total.update(_of_the_pod(spec))
    _add(total, _nanos(mapping(spec.get("overhead"))))
    return total


def _of_all_containers(spec: Object, assumed: Mapping[str, int]) -> Nanos:
    return effective(spec, lambda container: {**assumed, **_nanos(container_requests(container))})


def _of_the_pod(spec: Object) -> Nanos:
    written = mapping(mapping(spec.get("resources")).get("requests"))
    return _nanos(
        {name: amount for name, amount in written.items() if name in _ASSUMED or name.startswith("hugepages-")}
    )


def _nanos(written: Object) -> Nanos:
    return {name: _read(amount if isinstance(amount, str) else str(amount)) for name, amount in written.items()}


@remember(16_384)
def _read(text: str) -> int:
    try:
        return Quantity.parse(text).nanos
    except QuantityError:
        return 0
