"""Chains of selections and indexes in the exact variant: `device.attributes["x"][y].z`, `has`, optionals.

A chain is one unit for its variable and one for each step taken. Runs of constant steps are one call at run time.
"""

from __future__ import annotations

import ast
from typing import Final

from dray.cel import emit
from dray.cel.attributes import FIELD, INDEX, OPTIONAL, PRESENT
from dray.cel.constants import Folder
from dray.cel.exact.code import Code
from dray.cel.recursion import Step
from dray.cel.syntax import Call, Ident, Node, Select
from dray.cel.values import Value

STEPS: Final = ("_[_]", "_?._", "_[?_]")


def is_step(node: Node) -> bool:
    return isinstance(node, Select) or (isinstance(node, Call) and node.function in STEPS)


class Chains:
    def __init__(self, code: Code, folder: Folder) -> None:
        self._code = code
        self._folder = folder

    def chain(self, node: Node, *, observed: bool) -> Step[ast.expr]:
        """A chain of selections and indexes. An unobserved one (a branch of `?:`) costs one unit less."""
        whole = node
        steps: list[tuple[int, Node | str]] = []
        while True:
            if isinstance(node, Select):
                steps.append((PRESENT if node.test else FIELD, node.field))
                node = node.operand
            elif isinstance(node, Call) and node.function in STEPS and self._folder.fold(node) is None:
                kind = INDEX if node.function == "_[_]" else OPTIONAL
                steps.append((kind, node.args[1]))
                node = node.args[0]
            else:
                break
        tested = bool(steps) and steps[0][0] == PRESENT
        value = yield from self._base(node)
        if steps:
            value = yield from self._walk(value, list(reversed(steps)))
            if self._code.places:
                value = self._code.store(self._code.placed(whole, value))
        conditional = isinstance(node, Call) and node.function == "_?_:_"
        if observed and not tested and not conditional:
            self._code.charge(1)
        return value

    def unobserved(self, node: Node) -> Step[ast.expr]:
        """The value of a branch or an index."""
        if self._folder.fold(node) is None and (isinstance(node, Ident) or is_step(node)):
            return (yield from self.chain(node, observed=False))
        value: ast.expr = yield node
        return value

    def _base(self, node: Node) -> Step[ast.expr]:
        if isinstance(node, Ident) and node.constant is None:
            return self._code.variable(node.name)
        value: ast.expr = yield node
        return value

    def _walk(self, value: ast.expr, steps: list[tuple[int, Node | str]]) -> Step[ast.expr]:
        """Takes steps; runs of constant ones in one call, a computed index by itself."""
        result = self._code.new("t")
        count = self._code.new("n")
        self._code.flush()
        self._code.assign(result, value)
        position = 0
        while position < len(steps):
            run: list[tuple[int, Value]] = []
            while position < len(steps) and (key := self._key(steps[position][1])) is not None:
                run.append((steps[position][0], key[0]))
                position += 1
            with self._code.captured() as body:
                if run:
                    self._take(result, count, self._code.constant(tuple(run)))
                else:
                    kind, index = steps[position]
                    position += 1
                    assert isinstance(index, Node)
                    yield from self._computed_step(result, count, kind, index)
            sound = emit.compare(emit.call("type", emit.name(result)), ast.IsNot(), emit.name("E"))
            self._code.body.append(emit.if_(sound, body))
        return emit.name(result)

    def _key(self, key: Node | str) -> tuple[Value] | None:
        if isinstance(key, str):
            return (key,)
        folded = self._folder.fold(key)
        return None if folded is None else (folded.value,)

    def _take(self, result: str, count: str, steps: ast.expr) -> None:
        taken = emit.call("resolve", emit.name(result), steps)
        self._code.body += [emit.assign_pair(result, count, taken), emit.add_to("c", emit.name(count))]

    def _computed_step(self, result: str, count: str, kind: int, index: Node) -> Step[None]:
        key = yield self.unobserved(index)
        self._code.flush()
        taken = emit.call("resolve", emit.name(result), emit.tuple_(emit.tuple_(emit.constant(kind), key)))
        failed = [emit.assign(result, key), emit.add_to("c", emit.constant(1))]
        went = [emit.assign_pair(result, count, taken)]
        # cel-go counts no step for an index that is itself a `?:`.
        if not (isinstance(index, Call) and index.function == "_?_:_"):
            went.append(emit.add_to("c", emit.name(count)))
        self._code.body.append(emit.if_(emit.is_error(key), failed, went))
