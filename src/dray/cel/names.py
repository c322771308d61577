"""Names resolved without checking types, for expressions that are run unchecked.

What is not declared stays in the tree and becomes an error when, and if, it is evaluated.
"""

from __future__ import annotations

from dray.cel.environment import Environment
from dray.cel.parser import qualified_name
from dray.cel.syntax import Call, Comprehension, Ident, ListNode, MapNode, Node, Select
from dray.cel.values import TypeValue


def resolve_names(node: Node, environment: Environment, local: frozenset[str] = frozenset()) -> Node:
    if isinstance(node, Ident):
        constant = environment.constants.get(node.name)
        if constant is not None and node.name not in local and node.name not in environment.variables:
            node.constant = TypeValue(constant.name)
        return node
    if isinstance(node, Select):
        name = qualified_name(node)
        if name is not None and name in environment.variables and name.partition(".")[0] not in local:
            return Ident(node.offset, name)
        if name is not None and name in environment.constants:
            return resolve_names(Ident(node.offset, name), environment, local)
        node.operand = resolve_names(node.operand, environment, local)
    elif isinstance(node, Call):
        _call(node, environment, local)
    elif isinstance(node, ListNode):
        node.elements = [resolve_names(element, environment, local) for element in node.elements]
    elif isinstance(node, MapNode):
        node.entries = [
            (resolve_names(key, environment, local), resolve_names(value, environment, local))
            for key, value in node.entries
        ]
    elif isinstance(node, Comprehension):
        _comprehension(node, environment, local)
    return node


def _call(node: Call, environment: Environment, local: frozenset[str]) -> None:
    if node.target is not None:
        name = qualified_name(node.target)
        if name is not None and environment.function(f"{name}.{node.function}") is not None:
            node.function = f"{name}.{node.function}"
            node.target = None
        else:
            node.target = resolve_names(node.target, environment, local)
    node.args = [resolve_names(argument, environment, local) for argument in node.args]


def _comprehension(node: Comprehension, environment: Environment, local: frozenset[str]) -> None:
    node.range = resolve_names(node.range, environment, local)
    node.init = resolve_names(node.init, environment, local)
    inside = local | {node.accu, node.var} | ({node.var2} if node.var2 else set())
    node.condition = resolve_names(node.condition, environment, inside)
    node.step = resolve_names(node.step, environment, inside)
    node.result = resolve_names(node.result, environment, local | {node.accu})
