"""Python syntax trees, built by hand: the few shapes that compiled expressions consist of."""

from __future__ import annotations

import ast
from typing import Any, Final

_PLACE: Final[dict[str, Any]] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
COMPILED: Final = "<cel>"
"""The file name of compiled expressions."""
_TYPE_PARAMS: Final[dict[str, Any]] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
_LOAD: Final = ast.Load()
_STORE: Final = ast.Store()


def name(identifier: str) -> ast.expr:
    return ast.Name(identifier, _LOAD, **_PLACE)


def constant(value: Any) -> ast.expr:
    return ast.Constant(value, **_PLACE)


def call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(name(function), list(arguments), [], **_PLACE)


def assign(target: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(target, _STORE, **_PLACE)], value, **_PLACE)


def assign_pair(first: str, second: str, value: ast.expr) -> ast.stmt:
    names: list[ast.expr] = [ast.Name(first, _STORE, **_PLACE), ast.Name(second, _STORE, **_PLACE)]
    return ast.Assign([ast.Tuple(names, _STORE, **_PLACE)], value, **_PLACE)


def add_to(target: str, value: ast.expr) -> ast.stmt:
    return ast.AugAssign(ast.Name(target, _STORE, **_PLACE), ast.Add(), value, **_PLACE)


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [operator], [right], **_PLACE)


def is_(left: ast.expr, right: ast.expr) -> ast.expr:
    return compare(left, ast.Is(), right)


def is_error(value: ast.expr) -> ast.expr:
    return is_(call("type", value), name("E"))


def if_(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt] | None = None) -> ast.stmt:
    return ast.If(test, body or [ast.Pass(**_PLACE)], orelse or [], **_PLACE)


def block(body: list[ast.stmt]) -> ast.stmt:
    """Statements that `break` may leave early."""
    return ast.While(constant(True), [*body, ast.Break(**_PLACE)], [], **_PLACE)


def leave() -> ast.stmt:
    return ast.Break(**_PLACE)


def for_(target: str, iterable: ast.expr, body: list[ast.stmt], second: str | None = None) -> ast.stmt:
    into: ast.expr = ast.Name(target, _STORE, **_PLACE)
    if second is not None:
        into = ast.Tuple([into, ast.Name(second, _STORE, **_PLACE)], _STORE, **_PLACE)
    return ast.For(into, iterable, body or [ast.Pass(**_PLACE)], [], None, **_PLACE)


def tuple_(*values: ast.expr) -> ast.expr:
    return ast.Tuple(list(values), _LOAD, **_PLACE)


def list_(*values: ast.expr) -> ast.expr:
    return ast.List(list(values), _LOAD, **_PLACE)


def dict_() -> ast.expr:
    return ast.Dict([], [], **_PLACE)


def expression(value: ast.expr) -> ast.stmt:
    return ast.Expr(value, **_PLACE)


def return_(value: ast.expr) -> ast.stmt:
    return ast.Return(value, **_PLACE)


def arguments(parameters: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(p, **_PLACE) for p in parameters], None, [], [], None, [])


def function(identifier: str, parameters: list[str], body: list[ast.stmt]) -> ast.stmt:
    return ast.FunctionDef(identifier, arguments(parameters), body, [], **_PLACE, **_TYPE_PARAMS)


def lambda_(parameters: list[str], body: ast.expr, *values: ast.expr) -> ast.expr:
    """A lambda applied to values at once: a local name inside an expression."""
    return ast.Call(ast.Lambda(arguments(parameters), body, **_PLACE), list(values), [], **_PLACE)


def attribute(value: ast.expr, field: str) -> ast.expr:
    return ast.Attribute(value, field, _LOAD, **_PLACE)


def subscript(value: ast.expr, key: ast.expr) -> ast.expr:
    return ast.Subscript(value, key, _LOAD, **_PLACE)


def all_of(values: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(ast.And(), values, **_PLACE)


def any_of(values: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(ast.Or(), values, **_PLACE)


def not_(value: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), value, **_PLACE)


def choose(test: ast.expr, then: ast.expr, otherwise: ast.expr) -> ast.expr:
    return ast.IfExp(test, then, otherwise, **_PLACE)


def comprehension(kind: type[ast.ListComp] | type[ast.GeneratorExp], element: ast.expr, *parts: Any) -> ast.expr:
    """`parts` are the target's names, the iterable, and conditions."""
    names, iterable, *conditions = parts
    targets: list[ast.expr] = [ast.Name(n, _STORE, **_PLACE) for n in names]
    target = targets[0] if len(targets) == 1 else ast.Tuple(targets, _STORE, **_PLACE)
    return kind(element, [ast.comprehension(target, iterable, conditions, 0)], **_PLACE)


def load(body: list[ast.stmt], entry: str, namespace: dict[str, Any]) -> Any:
    """Compiles function definitions over a namespace without builtins and returns the one called `entry`."""
    module = ast.Module(body, [])
    namespace = {**namespace, "__builtins__": {}}
    exec(compile(module, COMPILED, "exec"), namespace)
    return namespace[entry]
