"""Chains of selections and indexes in the exact variant: `device.attributes["x"][y].z`, `has`, optionals.

A chain is one unit for its variable and one for each step taken. Runs of constant steps are one call at run time.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from typing import Final

from dray.cel import emit
from dray.cel.attributes import FIELD, INDEX, OPTIONAL, PRESENT
from dray.cel.syntax import Call, Ident, Node, Select
from dray.cel.values import Value
from dray.cel.writer import Writer

STEPS: Final = ("_[_]", "_?._", "_[?_]")


def is_step(node: Node) -> bool:
    return isinstance(node, Select) or (isinstance(node, Call) and node.function in STEPS)


class ChainWriter(Writer, ABC):
    @abstractmethod
    def _value(self, node: Node) -> ast.expr:
        """Writes what a node takes and returns the name or constant that holds its value."""

    def _attribute(self, node: Node, *, observed: bool) -> ast.expr:
        """A chain of selections and indexes. An unobserved one (a branch of `?:`) costs one unit less."""
        whole = node
        steps: list[tuple[int, Node | str]] = []
        while True:
            if isinstance(node, Select):
                steps.append((PRESENT if node.test else FIELD, node.field))
                node = node.operand
            elif isinstance(node, Call) and node.function in STEPS and self.folder.fold(node) is None:
                kind = INDEX if node.function == "_[_]" else OPTIONAL
                steps.append((kind, node.args[1]))
                node = node.args[0]
            else:
                break
        tested = bool(steps) and steps[0][0] == PRESENT
        value = self._base(node)
        if steps:
            value = self._walk(value, list(reversed(steps)))
            if self.places:
                value = self._store(self._placed(whole, value))
        conditional = isinstance(node, Call) and node.function == "_?_:_"
        if observed and not tested and not conditional:
            self._charge(1)
        return value

    def _base(self, node: Node) -> ast.expr:
        if isinstance(node, Ident) and node.constant is None:
            return self._variable(node.name)
        return self._value(node)

    def _variable(self, name: str) -> ast.expr:
        name = name.lstrip(".") if name.startswith(".") and name not in self.scope else name
        if name not in self.scope:
            return self._failure(f"undeclared reference to '{name}'")
        if name in self.lazy:
            self.body.append(emit.assign(self.lazy[name], emit.constant(True)))
        return emit.name(self.scope[name])

    def _walk(self, value: ast.expr, steps: list[tuple[int, Node | str]]) -> ast.expr:
        """Takes steps; runs of constant ones in one call, a computed index by itself."""
        result = self._new("t")
        count = self._new("n")
        self._flush()
        self.body.append(emit.assign(result, value))
        position = 0
        while position < len(steps):
            run: list[tuple[int, Value]] = []
            while position < len(steps) and (key := self._key(steps[position][1])) is not None:
                run.append((steps[position][0], key[0]))
                position += 1
            if run:
                self._take(result, count, self._constant(tuple(run)))
            else:
                kind, index = steps[position]
                position += 1
                assert isinstance(index, Node)
                self._computed_step(result, count, kind, index)
        return emit.name(result)

    def _key(self, key: Node | str) -> tuple[Value] | None:
        if isinstance(key, str):
            return (key,)
        folded = self.folder.fold(key)
        return None if folded is None else (folded.value,)

    def _take(self, result: str, count: str, steps: ast.expr) -> None:
        take = [
            emit.assign_pair(result, count, emit.call("resolve", emit.name(result), steps)),
            emit.add_to("c", emit.name(count)),
        ]
        self.body.append(
            emit.if_(emit.compare(emit.call("type", emit.name(result)), ast.IsNot(), emit.name("E")), take)
        )

    def _computed_step(self, result: str, count: str, kind: int, index: Node) -> None:
        def take() -> None:
            if isinstance(index, Ident) or is_step(index):
                key = self._attribute(index, observed=False)
            else:
                key = self._value(index)
            self._flush()
            taken = emit.call("resolve", emit.name(result), emit.tuple_(emit.tuple_(emit.constant(kind), key)))
            failed = [emit.assign(result, key), emit.add_to("c", emit.constant(1))]
            went = [emit.assign_pair(result, count, taken)]
            # cel-go counts no step for an index that is itself a `?:`.
            if not (isinstance(index, Call) and index.function == "_?_:_"):
                went.append(emit.add_to("c", emit.name(count)))
            self.body.append(emit.if_(emit.is_error(key), failed, went))

        body = self._captured(take)
        self.body.append(
            emit.if_(emit.compare(emit.call("type", emit.name(result)), ast.IsNot(), emit.name("E")), body)
        )
