"""Host ports: those a pod wants and those that are taken on a node.

Two collide where protocol and number are the same and the addresses are too, or one of them stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

EVERYWHERE: Final = "0.0.0.0"

Port = tuple[str, str, int]
"""Protocol, address (0.0.0.0 for all), number."""


class TakenPorts:
    """How many pods have each; none that nobody has."""

    __slots__ = ("_addresses",)

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], dict[str, int]] = {}
        """By protocol and number, then by address."""

    def __bool__(self) -> bool:
        return bool(self._addresses)

    def all(self) -> dict[Port, int]:
        return {
            (protocol, address, number): count
            for (protocol, number), addresses in self._addresses.items()
            for address, count in addresses.items()
        }

    def count(self, ports: Iterable[Port], sign: int) -> None:
        for protocol, address, number in ports:
            addresses = self._addresses.setdefault((protocol, number), {})
            addresses[address] = addresses.get(address, 0) + sign
            if not addresses[address]:
                del addresses[address]
            if not addresses:
                del self._addresses[protocol, number]

    def collide(self, wanted: Iterable[Port]) -> bool:
        for protocol, address, number in wanted:
            taken = self._addresses.get((protocol, number))
            if taken and (address == EVERYWHERE or EVERYWHERE in taken or address in taken):
                return True
        return False
