"""The exact variant: errors are values, cost is counted, the limit holds.

Every operation becomes a statement, so nesting in the expression does not nest in Python. `c` is the cost so far.
Costs known beforehand are added up and charged once (`_charge`, `_flush`); the others are computed from the operands.
What cel-go counts and in which order decides the shape of this code: unary and binary calls evaluate all operands
even after an error, calls with more operands, lists and maps stop at the first, and then such calls cost nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from dray.cel import emit
from dray.cel.chains import STEPS, ChainWriter, is_step
from dray.cel.constants import Folder
from dray.cel.cost import LIST_COST, MAP_COST, runtime_cost
from dray.cel.direct import DIRECT
from dray.cel.environment import Environment
from dray.cel.runtime import apply2
from dray.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Struct,
    first_operand,
    surely_uses,
)
from dray.cel.values import Value

# Python nests at most 20 loops; deeper ones move into a function of their own.
_MAX_BLOCKS = 14
_ARITHMETIC = ("_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_")
_CONTROL = ("_&&_", "_||_", "_?_:_", "or", "orValue")
_REGEX_CALLS = ("matches", "find", "findAll")

Evaluate = Callable[..., tuple[Value, int]]


def compile_exact(root: Node, environment: Environment, folder: Folder, *, places: bool = False) -> Evaluate:
    """A function of the variables' values that returns the value, or the error as a value, and the cost.

    With `places`, errors know where in the text they came from.
    """
    compiler = _Compiler(environment, folder)
    compiler.places = places
    return compiler.compile(root)


class _Compiler(ChainWriter):
    def compile(self, root: Node) -> Evaluate:
        for variable in self.environment.variables:
            self.scope[variable] = self._new("v")
        self.parameters = list(self.scope.values())
        self.body.append(emit.assign("c", emit.constant(0)))
        value = self._value(root)
        self._flush()
        self._check_limit()
        self.body.append(emit.return_(emit.tuple_(value, emit.name("c"))))
        self.functions.append(emit.function("run", self.parameters, self.body))
        run: Evaluate = emit.load(self.functions, "run", self.namespace)
        return run

    def _value(self, node: Node) -> ast.expr:
        folded = self.folder.fold(node)
        if folded is not None:
            return self._constant(folded.value)
        if isinstance(node, Ident) or is_step(node):
            return self._attribute(node, observed=True)
        if isinstance(node, Call):
            if node.function in _CONTROL:
                return self._nested(node)
            return self._call_chain(node)
        if isinstance(node, ListNode | MapNode | Comprehension):
            return self._nested(node)
        assert isinstance(node, Struct)
        return self._failure(f"undeclared reference to '{node.name}'")

    def _nested(self, node: Node) -> ast.expr:
        return self._guarded(lambda: self._block(node))

    def _guarded(self, work: Callable[[], ast.expr], *used: ast.expr) -> ast.expr:
        """Something that needs a block; past Python's limit the block goes into a function of its own."""
        self._flush()
        self.blocks += 1
        value = work() if self.blocks <= _MAX_BLOCKS else self._outlined(work, used)
        self.blocks -= 1
        return value

    def _block(self, node: Node) -> ast.expr:
        if isinstance(node, ListNode):
            return self._list(node)
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._bind(node) if node.bind else self._loop(node)
        assert isinstance(node, Call)
        if node.function == "_?_:_":
            return self._conditional(node)
        if node.function in ("_&&_", "_||_"):
            return self._logic(node)
        return self._or(node)

    def _outlined(self, work: Callable[[], ast.expr], used: tuple[ast.expr, ...]) -> ast.expr:
        """Moves work into a function over everything in scope, which returns the value and the cost."""
        outer, self.body = self.body, []
        blocks, self.blocks = self.blocks, 1
        inner = work()
        self._flush()
        self.body.append(emit.return_(emit.tuple_(inner, emit.name("c"))))
        body, self.body, self.blocks = self.body, outer, blocks
        function = self._new("f")
        names = [value.id for value in used if isinstance(value, ast.Name)]
        parameters = ["c", *dict.fromkeys([*self.scope.values(), *names])]
        lazy = [flag for name, flag in self.lazy.items() if name in self.scope]
        self.functions.append(emit.function(function, parameters, body))
        self.body.extend([emit.assign(flag, emit.constant(True)) for flag in dict.fromkeys(lazy)])
        value = self._new("t")
        self.body.append(emit.assign_pair(value, "c", emit.call(function, *[emit.name(p) for p in parameters])))
        return emit.name(value)

    def _call_chain(self, node: Call) -> ast.expr:
        """A call whose first operand may be a call, and so on: walked from the inside out."""
        chain: list[Call] = [node]
        while True:
            inner = first_operand(chain[-1])
            plain = isinstance(inner, Call) and inner.function not in STEPS and inner.function not in _CONTROL
            if not plain or self.folder.fold(inner) is not None:  # type: ignore[arg-type]
                break
            assert isinstance(inner, Call)
            chain.append(inner)
        first = None if inner is None else self._value(inner)
        while chain:
            first = self._call(chain.pop(), first)
        assert first is not None
        return first

    def _call(self, node: Call, first: ast.expr | None) -> ast.expr:
        function = self.environment.function(node.function)
        if function is None:
            return self._failure(f"undeclared reference to '{node.function}'")
        if not node.overloads and all([len(o.params) != len(node.operands()) for o in function.overloads]):
            return self._failure(f"no such overload: {node.function}")
        if first is not None and (known := self._arithmetic(node, function.implementation, first)) is not None:
            return known
        implementation = emit.name(self._global("F", function.implementation))
        if first is None:
            self._charge(1)
            return self._store(self._placed(node, emit.call("apply0", implementation)))
        members = self.folder.members(node)
        if members is not None:
            self._flush()
            look_up = emit.name(self._global("F", members.contains))
            return self._store(self._placed(node, emit.call("apply1", look_up, first)))
        if node.function in ("!_", "@not_strictly_false"):
            return self._negation(node, first)
        rest = node.operands()[1:]
        if self._appends(node):
            return self._push(first, rest[0])
        if rest and self._stops_early(node, rest):
            return self._strict_call(node, implementation, first, rest)
        operands = [first, *[self._value(operand) for operand in rest]]
        self._charge_call(node, operands)
        direct = DIRECT.get(function.implementation)
        if direct is not None:
            applied = emit.call(self._global("F", direct), *operands)
        else:
            applied = emit.call(f"apply{len(operands)}", implementation, *operands)
        return self._store(self._placed(node, applied))

    def _arithmetic(self, node: Call, implementation: Callable[..., Value], first: ast.expr) -> ast.expr | None:
        """The result, where both operands are known already; long sums would be long functions."""
        if node.function not in _ARITHMETIC or self.places or runtime_cost(node) is not None:
            return None
        left = self._known(first)
        right = self.folder.fold(node.args[1]) if left is not None else None
        if left is None or right is None:
            return None
        self._charge(1)
        return self._constant(apply2(implementation, left[0], right.value))

    def _negation(self, node: Call, value: ast.expr) -> ast.expr:
        self._charge(1)
        if node.function == "@not_strictly_false":
            return self._store(emit.compare(value, ast.IsNot(), emit.constant(False)))
        wrong = emit.call("not_bool", value)
        inverted = emit.choose(emit.is_(value, emit.constant(False)), emit.constant(True), wrong)
        return self._store(emit.choose(emit.is_(value, emit.constant(True)), emit.constant(False), inverted))

    def _stops_early(self, node: Call, rest: list[Node]) -> bool:
        """Whether cel-go runs the call as one of many operands, by its overloads or for a constant pattern."""
        if len(rest) > 1:
            return True
        if node.function in _REGEX_CALLS and self.folder.fold(rest[0]) is not None:
            return True
        return len(node.overloads) > 1 and node.function[0] not in "_@"

    @staticmethod
    def _appends(node: Call) -> bool:
        """Whether this is the step of a loop that collects: its own list plus one element."""
        if node.function != "_+_" or not isinstance(node.args[0], Ident) or not node.args[0].name.startswith("@result"):
            return False
        last = node.args[1]
        return isinstance(last, ListNode) and len(last.elements) == 1 and not last.optional

    def _push(self, values: ast.expr, last: Node) -> ast.expr:
        assert isinstance(last, ListNode)
        folded = self.folder.fold(last) is not None
        element = self._value(last.elements[0])
        self._charge(1 if folded else LIST_COST + 1)
        return self._store(emit.call("push", values, element))

    def _strict_call(self, node: Call, implementation: ast.expr, first: ast.expr, rest: list[Node]) -> ast.expr:
        """Stops at the first operand that is an error, and then costs nothing unless it was the last."""
        return self._guarded(lambda: self._strict_block(node, implementation, first, rest), first)

    def _strict_block(self, node: Call, implementation: ast.expr, first: ast.expr, rest: list[Node]) -> ast.expr:
        result = self._new("t")

        def evaluate() -> None:
            operands = [first]
            self._stop_on_error(result, first)
            for operand in rest[:-1]:
                operands.append(self._value(operand))
                if self.folder.fold(operand) is None:
                    self._stop_on_error(result, operands[-1])
            operands.append(self._value(rest[-1]))
            self._charge_call(node, operands)
            if self.folder.fold(rest[-1]) is None:
                self._stop_on_error(result, operands[-1])
            applied = self._placed(node, emit.call("apply_all", implementation, *operands))
            self.body.append(emit.assign(result, applied))

        self.body.append(emit.block(self._captured(evaluate)))
        return emit.name(result)

    def _stop_on_error(self, result: str, value: ast.expr) -> None:
        self._flush()
        self.body.append(emit.if_(emit.is_error(value), [emit.assign(result, value), emit.leave()]))

    def _conditional(self, node: Call) -> ast.expr:
        condition = self._value(node.args[0])
        result = self._new("t")
        self._flush()
        then = self._into(result, lambda: self._branch(node.args[1]))
        otherwise = self._into(result, lambda: self._branch(node.args[2]))
        wrong = [emit.assign(result, self._placed(node, emit.call("not_bool", condition)))]
        inner = emit.if_(emit.is_(condition, emit.constant(False)), otherwise, wrong)
        self.body.append(emit.if_(emit.is_(condition, emit.constant(True)), then, [inner]))
        return emit.name(result)

    def _branch(self, node: Node) -> ast.expr:
        if self.folder.fold(node) is None and (isinstance(node, Ident) or is_step(node)):
            return self._attribute(node, observed=False)
        return self._value(node)

    def _logic(self, node: Call) -> ast.expr:
        """`&&` and `||`: the deciding value wins over errors, wherever it stands."""
        decisive = node.function == "_||_"
        result = self._new("t")

        def evaluate() -> None:
            self.body.append(emit.assign(result, emit.constant(not decisive)))
            for term in node.args:
                value = self._value(term)
                self._flush()
                decided = [emit.assign(result, emit.constant(decisive)), emit.leave()]
                failed = [emit.assign(result, emit.call("not_bool", value))]
                neither = emit.compare(value, ast.IsNot(), emit.constant(not decisive))
                undecided = emit.is_(emit.name(result), emit.constant(not decisive))
                later = emit.if_(emit.all_of([neither, undecided]), failed)
                self.body.append(emit.if_(emit.is_(value, emit.constant(decisive)), decided, [later]))

        self.body.append(emit.block(self._captured(evaluate)))
        return emit.name(result)

    def _or(self, node: Call) -> ast.expr:
        """`optional.or` and `orValue` look at their argument only when they need it; they cost nothing."""
        target, argument = node.operands()
        value = self._value(target)
        result = self._new("t")
        self._flush()
        present = value if node.function == "or" else emit.attribute(value, "value")
        fallback = self._into(result, lambda: self._value(argument))
        wrong = emit.choose(emit.is_error(value), value, emit.call("no_such_overload", emit.constant(node.function)))
        is_optional = emit.is_(emit.call("type", value), emit.name("Optional"))
        chosen = emit.if_(emit.is_(value, emit.name("NONE")), fallback, [emit.assign(result, present)])
        self.body.append(emit.if_(is_optional, [chosen], [emit.assign(result, wrong)]))
        return emit.name(result)

    def _list(self, node: ListNode) -> ast.expr:
        result = self._new("t")

        def evaluate() -> None:
            values: list[ast.expr] = []
            for element in node.elements:
                values.append(self._value(element))
                if self.folder.fold(element) is None:
                    self._stop_on_error(result, values[-1])
            built = emit.list_(*values)
            if node.optional:
                built = emit.call("build_list", built, self._constant(node.optional))
            self.body.append(emit.assign(result, built))

        self.body.append(emit.block(self._captured(evaluate)))
        self._charge(LIST_COST)
        return emit.name(result)

    def _map(self, node: MapNode) -> ast.expr:
        result = self._new("t")

        def evaluate() -> None:
            keys: list[ast.expr] = []
            values: list[ast.expr] = []
            for entry in node.entries:
                for part, collected in zip(entry, (keys, values), strict=True):
                    collected.append(self._value(part))
                    if self.folder.fold(part) is None:
                        self._stop_on_error(result, collected[-1])
            built = emit.call("build_map", emit.list_(*keys), emit.list_(*values), self._constant(node.optional))
            self.body.append(emit.assign(result, built))

        self.body.append(emit.block(self._captured(evaluate)))
        self._charge(MAP_COST)
        return emit.name(result)

    def _scoped(self, names: dict[str, str], work: Callable[[], ast.expr]) -> ast.expr:
        scope, lazy = dict(self.scope), dict(self.lazy)
        self.scope.update(names)
        for name in names:
            self.lazy.pop(name, None)
        value = work()
        self.scope, self.lazy = scope, lazy
        return value

    def _bind(self, node: Comprehension) -> ast.expr:
        """A bound value is evaluated at once, but its cost is given back if it turns out not to be used."""
        certain = surely_uses(node.result, node.accu)
        variable = self._new("b")
        before = self._new("n")
        used = self._new("u")
        if not certain:
            self.body.append(emit.assign(before, emit.name("c")))
        self.body.append(emit.assign(variable, self._value(node.init)))
        if certain:
            return self._scoped({node.accu: variable}, lambda: self._value(node.result))
        self._flush()
        spent = ast.BinOp(emit.name("c"), ast.Sub(), emit.name(before), lineno=1, col_offset=0)
        self.body.append(emit.assign(before, spent))
        self.body.append(emit.assign(used, emit.constant(False)))

        def result() -> ast.expr:
            self.lazy[node.accu] = used
            return self._value(node.result)

        value = self._scoped({node.accu: variable}, result)
        self._flush()
        refund = ast.UnaryOp(ast.USub(), emit.name(before), lineno=1, col_offset=0)
        self.body.append(emit.if_(emit.not_(emit.name(used)), [emit.add_to("c", refund)]))
        return value

    def _loop(self, node: Comprehension) -> ast.expr:
        two = node.var2 is not None
        iterated = emit.call("iterate_pairs" if two else "iterate", self._value(node.range))
        elements = self._store(self._placed(node.range, iterated))
        result = self._new("t")
        accu, var, var2 = self._new("a"), self._new("i"), self._new("i") if two else None

        def run() -> None:
            self.body.append(emit.assign(accu, self._initial(node.init)))
            body = self._captured(lambda: self._iteration(node, accu, var, var2))
            self.body.append(emit.for_(var, elements, body, var2))
            value = self._scoped({node.accu: accu}, lambda: self._value(node.result))
            self.body.append(emit.assign(result, value))

        self._flush()
        ran = self._captured(run)
        self.body.append(emit.if_(emit.is_error(elements), [emit.assign(result, elements)], ran))
        return emit.name(result)

    def _initial(self, node: Node) -> ast.expr:
        """What a loop collects into must be its own: an empty list or map is made anew."""
        if isinstance(node, ListNode) and not node.elements:
            return emit.list_()
        if isinstance(node, MapNode) and not node.entries:
            return emit.dict_()
        return self._value(node)

    def _iteration(self, node: Comprehension, accu: str, var: str, var2: str | None) -> None:
        names = {node.accu: accu, node.var: var}
        if node.var2 is not None and var2 is not None:
            names[node.var2] = var2

        def iterate() -> ast.expr:
            if not (isinstance(node.condition, Literal) and node.condition.value is True):
                condition = self._value(node.condition)
                self._flush()
                self.body.append(emit.if_(emit.is_(condition, emit.constant(False)), [emit.leave()]))
            return self._value(node.step)

        self.body.append(emit.assign(accu, self._scoped(names, iterate)))
        self._flush()
        self._check_limit()
