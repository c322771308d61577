"""The fast variant: one Python expression, no cost, no absorbed errors.

It is right whenever it returns. When it raises, the exact variant decides. It may only be used where the estimated
cost is within the limit, so that it needs no counting; and not every expression has one (`Unsupported`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from dray.cel import attributes, emit, operators, size_limit
from dray.cel import types as t
from dray.cel.constants import Folder
from dray.cel.device import Device
from dray.cel.environment import Environment
from dray.cel.errors import EvaluationError
from dray.cel.runtime import build_map, iterate, iterate_pairs
from dray.cel.syntax import Call, Comprehension, Ident, ListNode, MapNode, Node, Select
from dray.cel.types import Type
from dray.cel.values import Value

MAX_DEPTH: Final = 40

_COMPARISONS: Final[dict[str, type[ast.cmpop]]] = {
    "_==_": ast.Eq,
    "_!=_": ast.NotEq,
    "_<_": ast.Lt,
    "_<=_": ast.LtE,
    "_>_": ast.Gt,
    "_>=_": ast.GtE,
}
_PLAIN: Final = frozenset((t.STRING, t.BOOL, t.INT, t.UINT, t.BYTES))
# Commonly called, and nothing that the size limit counts: it is not started for them, a tenth of a short evaluation.
_SMALL: Final = frozenset(("compareTo", "isGreaterThan", "isLessThan", "quantity", "semver", "startsWith", "endsWith"))
# Functions whose constant arguments are worth evaluating beforehand.
_PURE: Final = frozenset(("quantity", "semver", "ip", "cidr", "url"))


class Unsupported(Exception):
    """The expression has no fast variant."""


def _elements(value: Value) -> Any:
    found = iterate(value)
    if isinstance(found, EvaluationError):
        raise found
    return found


def _pairs(value: Value) -> Any:
    found = iterate_pairs(value)
    if isinstance(found, EvaluationError):
        raise found
    return found


def _build_map(keys: list[Value], values: list[Value]) -> Value:
    built = build_map(keys, values, frozenset())
    if isinstance(built, EvaluationError):
        raise built
    return built


_NAMESPACE: Final[dict[str, Any]] = {
    "truth": operators.truth,
    "equals": operators.equals,
    "select": attributes.select,
    "index": attributes.index,
    "optional_get": attributes.optional_get,
    "has": attributes.has,
    "elements": _elements,
    "pairs": _pairs,
    "build_map": _build_map,
    "all": all,
    "any": any,
    "sum": sum,
}


def compile_fast(root: Node, environment: Environment, folder: Folder) -> Callable[..., Value]:
    """A function of the variables' values; raises Unsupported."""
    return _Compiler(environment, folder).compile(root)


class _Compiler:
    def __init__(self, environment: Environment, folder: Folder) -> None:
        self.environment = environment
        self.folder = folder
        self.namespace = {**_NAMESPACE, "start": partial(size_limit.start, folder.patterns.keys())}
        self.scope: dict[str, str] = {}
        self.counter = 0
        self.depth = 0
        self.grows = False
        """Whether something is called that the size limit counts."""

    def compile(self, root: Node) -> Callable[..., Value]:
        for variable in self.environment.variables:
            self.scope[variable] = self._new("v")
        parameters = list(self.scope.values())
        body = [emit.return_(self._value(root))]
        if self.grows:
            body.insert(0, emit.expression(emit.call("start")))
        run: Callable[..., Value] = emit.load([emit.function("run", parameters, body)], "run", self.namespace)
        return run

    def _new(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def _global(self, value: Any) -> str:
        name = self._new("K")
        self.namespace[name] = value
        return name

    def _constant(self, value: Value) -> ast.expr:
        if type(value) in (bool, int, str, type(None)):
            return emit.constant(value)
        return emit.name(self._global(value))

    def _value(self, node: Node) -> ast.expr:
        folded = self.folder.fold(node)
        if folded is not None:
            return self._constant(folded.value)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unsupported
        if isinstance(node, Ident):
            value = self._variable(node)
        elif isinstance(node, Select):
            value = self._select(node)
        elif isinstance(node, Call):
            value = self._call(node)
        elif isinstance(node, ListNode) and not node.optional:
            value = emit.list_(*[self._value(element) for element in node.elements])
        elif isinstance(node, MapNode) and not node.optional:
            keys = emit.list_(*[self._value(key) for key, _ in node.entries])
            value = emit.call("build_map", keys, emit.list_(*[self._value(entry) for _, entry in node.entries]))
        elif isinstance(node, Comprehension):
            value = self._comprehension(node)
        else:
            raise Unsupported
        self.depth -= 1
        return value

    def _variable(self, node: Ident) -> ast.expr:
        name = self.scope.get(node.name)
        if name is None:
            raise Unsupported
        return emit.name(name)

    def _truth(self, node: Node) -> ast.expr:
        value = self._value(node)
        return value if node.type == t.BOOL else emit.call("truth", value)

    def _select(self, node: Select) -> ast.expr:
        operand = self._value(node.operand)
        field = emit.constant(node.field)
        if node.test:
            if _inner_map(node.operand.type):
                return emit.compare(field, ast.In(), operand)
            return emit.call("has", operand, field)
        if node.operand.type == t.DEVICE:
            return emit.attribute(operand, Device.FIELDS[node.field])
        if node.operand.type.kind == "map":
            return emit.subscript(operand, field)
        return emit.call("select", operand, field)

    def _call(self, node: Call) -> ast.expr:
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        operands = node.operands()
        if node.function in _COMPARISONS and _comparable(operands[0].type, operands[1].type):
            left, right = self._value(operands[0]), self._value(operands[1])
            return emit.compare(left, _COMPARISONS[node.function](), right)
        if node.function in _PURE and node.target is None:
            constant = self._apply_constants(node)
            if constant is not None:
                return constant
        function = self.environment.function(node.function)
        if function is None:
            raise Unsupported
        scalar = node.function in _COMPARISONS and any([operand.type in _PLAIN for operand in operands])
        if not scalar and node.function not in _SMALL:
            self.grows = True
        implementation = self._global(function.implementation)
        return emit.call(implementation, *[self._value(operand) for operand in operands])

    def _apply_constants(self, node: Call) -> ast.expr | None:
        arguments = [self.folder.fold(argument) for argument in node.args]
        function = self.environment.function(node.function)
        if function is None or any(argument is None for argument in arguments):
            return None
        try:
            return self._constant(function.implementation(*[a.value for a in arguments if a is not None]))
        except EvaluationError:
            raise Unsupported from None

    def _and(self, node: Call) -> ast.expr:
        return emit.all_of([self._truth(term) for term in node.args])

    def _or(self, node: Call) -> ast.expr:
        return emit.any_of([self._truth(term) for term in node.args])

    def _not(self, node: Call) -> ast.expr:
        return emit.not_(self._truth(node.args[0]))

    def _conditional(self, node: Call) -> ast.expr:
        condition, then, otherwise = node.args
        return emit.choose(self._truth(condition), self._value(then), self._value(otherwise))

    def _index(self, node: Call) -> ast.expr:
        operand, key = node.args
        simple = operand.type.kind == "map" and operand.type.params[0] == t.STRING and key.type == t.STRING
        if simple:
            return emit.subscript(self._value(operand), self._value(key))
        return emit.call("index", self._value(operand), self._value(key))

    def _optional(self, node: Call) -> ast.expr:
        return emit.call("optional_get", self._value(node.args[0]), self._value(node.args[1]))

    def _or_value(self, node: Call) -> ast.expr:
        target, default = node.operands()
        probe = isinstance(target, Call) and target.function in ("_?._", "_[?_]") and target.target is None
        if probe and _inner_map(target.args[0].type) and target.args[1].type == t.STRING:  # type: ignore[attr-defined]
            mapping, key = target.args  # type: ignore[attr-defined]
            get = emit.attribute(self._value(mapping), "get")
            return ast.Call(get, [self._value(key), self._value(default)], [], lineno=1, col_offset=0)
        function = self.environment.function("orValue")
        assert function is not None
        implementation = self._global(function.implementation)
        return emit.call(implementation, self._value(target), self._value(default))

    def _in(self, node: Call) -> ast.expr:
        members = self.folder.members(node)
        element = self._value(node.args[0])
        if members is not None:
            return emit.call(self._global(members.contains), element)
        container = node.args[1]
        if container.type.kind == "map" and container.type.params[0] == t.STRING and node.args[0].type == t.STRING:
            return emit.compare(element, ast.In(), self._value(container))
        self.grows = True
        return emit.call(self._global(operators.contains), element, self._value(container))

    def _comprehension(self, node: Comprehension) -> ast.expr:
        if node.bind:
            name = self._new("b")
            init = self._value(node.init)
            return emit.lambda_([name], self._inside({node.accu: name}, lambda: self._value(node.result)), init)
        range_ = self._value(node.range)
        names = [self._new("i") for _ in range(2 if node.var2 is not None else 1)]
        variables = dict(zip((node.var, node.var2 or ""), names, strict=False))
        if node.var2 is not None:
            iterable = emit.call("pairs", range_)
        elif node.range.type.kind == "map" and node.range.type.params[0] == t.STRING:
            iterable = range_
        else:
            iterable = emit.call("elements", range_)
        return self._inside(variables, lambda: self._loop(node, names, iterable))

    def _loop(self, node: Comprehension, names: list[str], iterable: ast.expr) -> ast.expr:
        step = node.step
        assert isinstance(step, Call)
        if node.macro in ("all", "exists"):
            body = self._truth(step.args[1])
            test = emit.comprehension(ast.GeneratorExp, body, names, iterable)
            return emit.call("all" if node.macro == "all" else "any", test)
        conditions = [self._truth(step.args[0])] if step.function == "_?_:_" else []
        if node.macro == "exists_one":
            ones = emit.comprehension(ast.GeneratorExp, emit.constant(1), names, iterable, *conditions)
            return emit.compare(emit.call("sum", ones), ast.Eq(), emit.constant(1))
        if node.macro not in ("map", "filter"):
            raise Unsupported
        append = step.args[1] if conditions else step
        assert isinstance(append, Call)
        assert isinstance(append.args[1], ListNode)
        element = self._value(append.args[1].elements[0])
        return emit.comprehension(ast.ListComp, element, names, iterable, *conditions)

    def _inside(self, names: dict[str, str], work: Callable[[], ast.expr]) -> ast.expr:
        scope = dict(self.scope)
        self.scope.update(names)
        value = work()
        self.scope = scope
        return value


_SPECIAL: Final[dict[str, Callable[[_Compiler, Call], ast.expr]]] = {
    "_&&_": _Compiler._and,
    "_||_": _Compiler._or,
    "!_": _Compiler._not,
    "_?_:_": _Compiler._conditional,
    "_[_]": _Compiler._index,
    "_?._": _Compiler._optional,
    "_[?_]": _Compiler._optional,
    "orValue": _Compiler._or_value,
    "@in": _Compiler._in,
}


def _inner_map(type_: Type) -> bool:
    """A map with string keys that is certainly an ordinary dict, not one of domains."""
    return type_.kind == "map" and type_.params[0] == t.STRING and type_.params[1].kind != "map"


def _comparable(left: Type, right: Type) -> bool:
    return left == right and left in _PLAIN
