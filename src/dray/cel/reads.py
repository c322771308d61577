"""Which parts of a device an expression looks at, as far as the text alone tells.

Two devices that agree on all of these give the same result. `None` in place of a name means every name of the
domain, and `everything` that no part can be left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dray.cel.constants import Folder
from dray.cel.syntax import Call, Comprehension, Ident, Node, Select, walk


@dataclass(frozen=True, slots=True)
class Reads:
    attributes: frozenset[tuple[str, str | None]] = field(default_factory=frozenset)
    """(domain, name) pairs."""
    capacities: frozenset[tuple[str, str | None]] = field(default_factory=frozenset)
    driver: bool = False
    allow_multiple_allocations: bool = False
    everything: bool = False


EVERYTHING: Final = Reads(everything=True, driver=True, allow_multiple_allocations=True)


def find_reads(root: Node, folder: Folder) -> Reads:
    collector = _Collector(folder)
    if not collector.collect(root):
        return EVERYTHING
    return Reads(
        frozenset(collector.pairs["attributes"]),
        frozenset(collector.pairs["capacity"]),
        "driver" in collector.fields,
        "allowMultipleAllocations" in collector.fields,
    )


class _Collector:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.pairs: dict[str, set[tuple[str, str | None]]] = {"attributes": set(), "capacity": set()}
        self.fields: set[str] = set()

    def collect(self, root: Node) -> bool:
        """Walks the tree from the outside in; False when some use of `device` cannot be told apart."""
        shadows = [node for node in walk(root) if isinstance(node, Comprehension)]
        if any("device" in (node.var, node.var2, node.accu) for node in shadows):
            return False
        stack: list[Node] = [root]
        while stack:
            node = stack.pop()
            path, base, others = self._path(node)
            stack.extend(others)
            if isinstance(base, Ident) and base.name.lstrip(".") == "device" and base.constant is None:
                if not self._record(path):
                    return False
            elif base is node:
                stack.extend(node.children())
            else:
                stack.append(base)
        return True

    def _path(self, node: Node) -> tuple[list[str | None], Node, list[Node]]:
        """The keys along a chain (None for a computed one), where it starts, and the computed keys."""
        keys: list[str | None] = []
        others: list[Node] = []
        while True:
            if isinstance(node, Select):
                keys.append(node.field)
                node = node.operand
            elif isinstance(node, Call) and (operands := self._step(node)) is not None:
                node, key = operands
                folded = self._folder.fold(key)
                keys.append(folded.value if folded is not None and isinstance(folded.value, str) else None)
                if folded is None:
                    others.append(key)
            else:
                break
        keys.reverse()
        return keys, node, others

    @staticmethod
    def _step(node: Call) -> tuple[Node, Node] | None:
        """Returns operand and key of an index or membership test; None for other calls."""
        if node.function in ("_[_]", "_?._", "_[?_]"):
            return node.args[0], node.args[1]
        if node.function == "@in" and node.args[1].type.kind == "map":
            return node.args[1], node.args[0]
        return None

    def _record(self, path: list[str | None]) -> bool:
        if not path or path[0] is None:
            return False
        first = path[0]
        if first not in self.pairs:
            self.fields.add(first)
            return True
        if len(path) == 1 or path[1] is None:
            return False
        self.pairs[first].add((path[1], path[2] if len(path) > 2 else None))
        return True
