"""Names resolved without checking types, for expressions that are run unchecked.

What is not declared stays in the tree and becomes an error when, and if, it is evaluated.
"""

from __future__ import annotations

from dray.cel.environment import Environment
from dray.cel.parser import qualified_name
from dray.cel.recursion import Step, run
from dray.cel.syntax import Call, Comprehension, Ident, ListNode, MapNode, Node, Select
from dray.cel.values import TypeValue


def resolve_names(root: Node, environment: Environment) -> Node:
    """The tree with declared names found. The root may be replaced when it is a qualified name."""
    return run(_resolve(root, environment, frozenset()))


def _resolve(node: Node, environment: Environment, local: frozenset[str]) -> Step[Node]:
    if isinstance(node, Ident):
        _ident(node, environment, local)
    elif isinstance(node, Select):
        return (yield from _select(node, environment, local))
    elif isinstance(node, Call):
        yield from _call(node, environment, local)
    elif isinstance(node, ListNode):
        for index, element in enumerate(node.elements):
            node.elements[index] = yield _resolve(element, environment, local)
    elif isinstance(node, MapNode):
        for index, (key, value) in enumerate(node.entries):
            resolved = yield _resolve(key, environment, local)
            node.entries[index] = (resolved, (yield _resolve(value, environment, local)))
    elif isinstance(node, Comprehension):
        yield from _comprehension(node, environment, local)
    return node


def _ident(node: Ident, environment: Environment, local: frozenset[str]) -> None:
    constant = environment.constants.get(node.name)
    if constant is not None and node.name not in local and node.name not in environment.variables:
        node.constant = TypeValue(constant.name)


def _select(node: Select, environment: Environment, local: frozenset[str]) -> Step[Node]:
    name = qualified_name(node)
    if name is not None and name in environment.variables and name.partition(".")[0] not in local:
        return Ident(node.offset, name)
    if name is not None and name in environment.constants:
        ident = Ident(node.offset, name)
        _ident(ident, environment, local)
        return ident
    node.operand = yield _resolve(node.operand, environment, local)
    return node


def _call(node: Call, environment: Environment, local: frozenset[str]) -> Step[None]:
    if node.target is not None:
        name = qualified_name(node.target)
        if name is not None and environment.function(f"{name}.{node.function}") is not None:
            node.function = f"{name}.{node.function}"
            node.target = None
        else:
            node.target = yield _resolve(node.target, environment, local)
    for index, argument in enumerate(node.args):
        node.args[index] = yield _resolve(argument, environment, local)


def _comprehension(node: Comprehension, environment: Environment, local: frozenset[str]) -> Step[None]:
    node.range = yield _resolve(node.range, environment, local)
    node.init = yield _resolve(node.init, environment, local)
    inside = local | {node.accu, node.var} | ({node.var2} if node.var2 else set())
    node.condition = yield _resolve(node.condition, environment, inside)
    node.step = yield _resolve(node.step, environment, inside)
    node.result = yield _resolve(node.result, environment, local | {node.accu})
