"""What the containers of a pod come to: all that run at once, or what is needed before them if that is more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, Self, TypeVar

from dray.api.objects import Object, mappings


class Amount(Protocol):
    def __add__(self, other: Self, /) -> Self: ...

    def __lt__(self, other: Self, /) -> bool: ...


A = TypeVar("A", bound=Amount)


def is_sidecar(init_container: Object) -> bool:
    return init_container.get("restartPolicy") == "Always"


def effective(spec: Object, read: Callable[[Object], dict[str, A]]) -> dict[str, A]:
    """By resource; `read` gives what one container asks for, in a dictionary of its own.

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
