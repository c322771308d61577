"""Host ports: those a pod wants and those that are taken on a node.

Two collide where protocol and number are the same and the addresses are too, or one of them stands for all. Each way in
which they can is a question of two sets, so that it costs as much as the smaller one has members.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

EVERYWHERE: Final = "0.0.0.0"

Port = tuple[str, str, int]
"""Protocol, address (0.0.0.0 for all), number."""
_Number = tuple[str, int]
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class HostPorts:
    exact: frozenset[Port]
    numbers: frozenset[_Number]
    everywhere: frozenset[_Number]
    """Those at all addresses."""

    @classmethod
    def of(cls, ports: Iterable[Port]) -> HostPorts:
        exact = frozenset(ports)
        numbers = frozenset((protocol, number) for protocol, _, number in exact)
        return cls(exact, numbers, frozenset((each[0], each[2]) for each in exact if each[1] == EVERYWHERE))

    def __bool__(self) -> bool:
        return bool(self.exact)


class TakenPorts:
    """How many pods have each; none that nobody has."""

    __slots__ = ("_everywhere", "_numbers", "exact")

    def __init__(self) -> None:
        self.exact: dict[Port, int] = {}
        self._numbers: dict[_Number, int] = {}
        self._everywhere: dict[_Number, int] = {}

    def __bool__(self) -> bool:
        return bool(self.exact)

    def count(self, ports: HostPorts, sign: int) -> None:
        for port in ports.exact:
            protocol, address, number = port
            _count(self.exact, port, sign)
            _count(self._numbers, (protocol, number), sign)
            if address == EVERYWHERE:
                _count(self._everywhere, (protocol, number), sign)

    def collide(self, wanted: HostPorts) -> bool:
        return not (
            self.exact.keys().isdisjoint(wanted.exact)
            and self._numbers.keys().isdisjoint(wanted.everywhere)
            and self._everywhere.keys().isdisjoint(wanted.numbers)
        )


def _count(counts: dict[K, int], key: K, change: int) -> None:
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]
