"""What becomes of each node of an expression in the exact variant, loops and bound variables included."""

from __future__ import annotations

import ast

from dray.cel import emit
from dray.cel.constants import Folder
from dray.cel.cost import LIST_COST, MAP_COST
from dray.cel.environment import Environment
from dray.cel.exact.calls import CONTROL, Calls
from dray.cel.exact.chains import Chains, is_step
from dray.cel.exact.code import Code
from dray.cel.recursion import Step
from dray.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Struct, surely_uses


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
        """Compiles the initial value of a loop; an empty list or map is created anew for each run."""
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


class Compiler:
    def __init__(self, code: Code, environment: Environment, folder: Folder) -> None:
        self._code = code
        self._folder = folder
        self._calls = Calls(code, environment, folder)
        self._chains = Chains(code, folder)
        self._comprehensions = Comprehensions(code)

    def value(self, node: Node) -> Step[ast.expr]:
        """Writes what a node takes and returns the name or constant that holds its value."""
        folded = self._folder.fold(node)
        if folded is not None:
            return self._code.constant(folded.value)
        if isinstance(node, Ident) or is_step(node):
            return (yield from self._chains.chain(node, observed=True))
        if isinstance(node, Call) and node.function not in CONTROL:
            return (yield from self._calls.chain(node))
        if isinstance(node, Struct):
            return self._code.failure(f"undeclared reference to '{node.name}'")
        return (yield from self._code.nested(self._block(node)))

    def _block(self, node: Node) -> Step[ast.expr]:
        if isinstance(node, ListNode):
            return self._list(node)
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._comprehensions.bind(node) if node.bind else self._comprehensions.loop(node)
        assert isinstance(node, Call)
        if node.function == "_?_:_":
            return self._conditional(node)
        if node.function in ("_&&_", "_||_"):
            return self._logic(node)
        return self._or(node)

    def _conditional(self, node: Call) -> Step[ast.expr]:
        code = self._code
        condition = yield node.args[0]
        result = code.new("t")
        code.flush()
        then = yield from code.into(result, self._chains.unobserved(node.args[1]))
        otherwise = yield from code.into(result, self._chains.unobserved(node.args[2]))
        wrong = [emit.assign(result, code.placed(node, emit.call("not_bool", condition)))]
        inner = emit.if_(emit.is_(condition, emit.constant(False)), otherwise, wrong)
        code.body.append(emit.if_(emit.is_(condition, emit.constant(True)), then, [inner]))
        return emit.name(result)

    def _logic(self, node: Call) -> Step[ast.expr]:
        """`&&` and `||`: the deciding value wins over errors, wherever it stands."""
        code = self._code
        decisive = node.function == "_||_"
        result = code.new("t")
        with code.block():
            code.assign(result, emit.constant(not decisive))
            for operand in node.args:
                value = yield operand
                code.flush()
                decided = [emit.assign(result, emit.constant(decisive)), emit.leave()]
                failed = [emit.assign(result, emit.call("not_bool", value))]
                neither = emit.compare(value, ast.IsNot(), emit.constant(not decisive))
                undecided = emit.is_(emit.name(result), emit.constant(not decisive))
                later = emit.if_(emit.all_of([neither, undecided]), failed)
                code.body.append(emit.if_(emit.is_(value, emit.constant(decisive)), decided, [later]))
        return emit.name(result)

    def _or(self, node: Call) -> Step[ast.expr]:
        """`optional.or` and `orValue` look at their argument only when they need it; they cost nothing."""
        code = self._code
        target, argument = node.operands()
        value = yield target
        result = code.new("t")
        code.flush()
        present = value if node.function == "or" else emit.attribute(value, "value")
        fallback = yield from code.into(result, argument)
        wrong = emit.choose(emit.is_error(value), value, emit.call("no_such_overload", emit.constant(node.function)))
        is_optional = emit.is_(emit.call("type", value), emit.name("Optional"))
        chosen = emit.if_(emit.is_(value, emit.name("NONE")), fallback, [emit.assign(result, present)])
        code.body.append(emit.if_(is_optional, [chosen], [emit.assign(result, wrong)]))
        return emit.name(result)

    def _list(self, node: ListNode) -> Step[ast.expr]:
        code = self._code
        result = code.new("t")
        with code.block():
            built = emit.list_(*(yield from self._elements(node.elements, result)))
            if node.optional:
                built = emit.call("build_list", built, code.constant(node.optional))
            code.assign(result, built)
        code.charge(LIST_COST)
        return emit.name(result)

    def _map(self, node: MapNode) -> Step[ast.expr]:
        code = self._code
        result = code.new("t")
        with code.block():
            values = yield from self._elements([part for entry in node.entries for part in entry], result)
            keys, entries = emit.list_(*values[::2]), emit.list_(*values[1::2])
            code.assign(result, emit.call("build_map", keys, entries, code.constant(node.optional)))
        code.charge(MAP_COST)
        return emit.name(result)

    def _elements(self, nodes: list[Node], result: str) -> Step[list[ast.expr]]:
        """Compiles the elements; the first error becomes the result."""
        values: list[ast.expr] = []
        for node in nodes:
            values.append((yield node))
            if self._folder.fold(node) is None:
                self._code.leave_on_error(result, values[-1])
        return values
