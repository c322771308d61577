"""Loops and bound variables in the exact variant."""

from __future__ import annotations

import ast

from dray.cel import emit
from dray.cel.exact.code import Code
from dray.cel.recursion import Step
from dray.cel.syntax import Comprehension, ListNode, Literal, MapNode, Node, surely_uses


class Comprehensions:
    def __init__(self, code: Code) -> None:
        self._code = code

    def bind(self, node: Comprehension) -> Step[ast.expr]:
        """A bound value is evaluated at once, but its cost is given back if it turns out not to be used."""
        code = self._code
        certain = surely_uses(node.result, node.accu)
        variable, before, used = code.new("b"), code.new("n"), code.new("u")
        if not certain:
            code.assign(before, emit.name("c"))
        code.assign(variable, (yield node.init))
        if certain:
            return (yield from code.scoped({node.accu: variable}, node.result))
        code.flush()
        spent = ast.BinOp(emit.name("c"), ast.Sub(), emit.name(before), lineno=1, col_offset=0)
        code.assign(before, spent)
        code.assign(used, emit.constant(False))
        value = yield from code.scoped({node.accu: variable}, node.result, uses=used)
        code.flush()
        refund = ast.UnaryOp(ast.USub(), emit.name(before), lineno=1, col_offset=0)
        code.body.append(emit.if_(emit.not_(emit.name(used)), [emit.add_to("c", refund)]))
        return value

    def loop(self, node: Comprehension) -> Step[ast.expr]:
        code = self._code
        two = node.var2 is not None
        iterated = emit.call("iterate_pairs" if two else "iterate", (yield node.range))
        elements = code.store(code.placed(node.range, iterated))
        result = code.new("t")
        accu, var, var2 = code.new("a"), code.new("i"), code.new("i") if two else None
        code.flush()
        with code.captured() as ran:
            code.assign(accu, (yield from self._initial(node.init)))
            with code.captured() as body:
                yield from self._iteration(node, accu, var, var2)
            code.body.append(emit.for_(var, elements, body, var2))
            code.assign(result, (yield from code.scoped({node.accu: accu}, node.result)))
        code.body.append(emit.if_(emit.is_error(elements), [emit.assign(result, elements)], ran))
        return emit.name(result)

    def _initial(self, node: Node) -> Step[ast.expr]:
        """What a loop collects into must be its own: an empty list or map is made anew."""
        if isinstance(node, ListNode) and not node.elements:
            return emit.list_()
        if isinstance(node, MapNode) and not node.entries:
            return emit.dict_()
        value: ast.expr = yield node
        return value

    def _iteration(self, node: Comprehension, accu: str, var: str, var2: str | None) -> Step[None]:
        names = {node.accu: accu, node.var: var}
        if node.var2 is not None and var2 is not None:
            names[node.var2] = var2
        value = yield from self._code.scoped(names, self._step(node))
        self._code.assign(accu, value)
        self._code.flush()
        self._code.check_limit()

    def _step(self, node: Comprehension) -> Step[ast.expr]:
        if not (isinstance(node.condition, Literal) and node.condition.value is True):
            condition = yield node.condition
            self._code.flush()
            self._code.body.append(emit.if_(emit.is_(condition, emit.constant(False)), [emit.leave()]))
        value: ast.expr = yield node.step
        return value
