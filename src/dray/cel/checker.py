"""The type checker: gives every node its type, every call the overloads that may serve it, or refuses.

Long chains are walked along their spine, so only nesting deepens the stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.cel import types as t
from dray.cel.declarations import Overload
from dray.cel.environment import Environment
from dray.cel.errors import CompileError
from dray.cel.escaping import unescape
from dray.cel.inference import Substitutions, less_specific
from dray.cel.parser import qualified_name
from dray.cel.recursion import Step, run
from dray.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    Struct,
    first_operand,
    walk,
)
from dray.cel.types import Type
from dray.cel.values import TypeValue, Uint

_MAX_RESOLUTIONS = 4096
LITERAL_TYPES: Final[Mapping[type, Type]] = {
    bool: t.BOOL,
    int: t.INT,
    Uint: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
}


def check(root: Node, environment: Environment, text: str) -> Node:
    """The tree with its types written in. The root may be replaced when it is a qualified name."""
    checker = Checker(environment, text)
    root = run(checker.check(root), checker.check)
    if checker.substitutions.used:
        resolve = checker.substitutions.resolve
        for node in walk(root):
            if node.type.generic:
                node.type = resolve(node.type, final=True)
    return root


class Checker:
    def __init__(self, environment: Environment, text: str) -> None:
        self.environment = environment
        self.text = text
        self.substitutions = Substitutions()
        self.scopes: list[dict[str, Type]] = []
        self._qualified_parts = environment.qualified
        self._namespaced_parts = environment.namespaced

    def error(self, node: Node, message: str) -> CompileError:
        return CompileError(message, text=self.text, offset=node.offset)

    def check(self, node: Node) -> Step[Node]:
        """Checks a node; its first operands are visited in a loop, everything else is a step of its own."""
        if type(node) is Literal:
            node.type = LITERAL_TYPES[type(node.value)]
            return node
        chain = [node]
        while (inner := self._first(chain[-1])) is not None:
            chain.append(inner)
        checked = yield from self._leaf(chain.pop())
        while chain:
            outer = chain.pop()
            if type(outer) is Select:
                outer.operand = checked
                self._select(outer)
            elif type(outer) is Call:
                if outer.target is not None:
                    outer.target = checked
                elif outer.args:
                    outer.args[0] = checked
                yield from self._call(outer, first_checked=True)
            checked = outer
        return checked

    def _first(self, node: Node) -> Node | None:
        """The operand to visit first, unless the node as a whole is a declared name or function."""
        if type(node) is Select:
            if node.field in self._qualified_parts and not node.test and self._declared(qualified_name(node)):
                return None
            return node.operand
        if type(node) is Call and node.target is not None:
            if node.function in self._namespaced_parts:
                name = qualified_name(node.target)
                if name is not None and self.environment.function(f"{name}.{node.function}") is not None:
                    return None
            return node.target
        return first_operand(node)

    def _leaf(self, node: Node) -> Step[Node]:
        if type(node) is Ident:
            self._ident(node)
        elif isinstance(node, Literal):
            node.type = LITERAL_TYPES[type(node.value)]
        elif isinstance(node, Select):
            return self._qualified(node)
        elif isinstance(node, Call):
            yield from self._call(node, first_checked=False)
        elif isinstance(node, ListNode):
            yield from self._list(node)
        elif isinstance(node, MapNode):
            yield from self._map(node)
        elif isinstance(node, Comprehension):
            yield from self._comprehension(node)
        elif isinstance(node, Struct):
            return (yield from self._struct(node))
        return node

    def _struct(self, node: Struct) -> Step[Node]:
        """An object is a map whose keys are its fields."""
        if not self.environment.makes(node.name):
            raise self.error(node, f"undeclared reference to '{node.name}' (in container '')")
        made = Type("object", name=node.name)
        entries: list[tuple[Node, Node]] = []
        for index, (field, value) in enumerate(zip(node.fields, node.values, strict=True)):
            checked = yield value
            wanted = self._field_type(node, made, field)
            found = self._unwrapped(checked, index in node.optional)
            if not self.substitutions.assignable(found, wanted):
                raise self.error(
                    value, f"expected type of field '{field}' is '{wanted}' but provided type is '{found}'"
                )
            key = Literal(node.offset, field)
            key.type = t.STRING
            entries.append((key, checked))
        replaced = MapNode(node.offset, entries, node.optional)
        replaced.type = made
        return replaced

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def _declared(self, name: str | None) -> bool:
        if name is None or "." not in name:
            return False
        if self._local(name.partition(".")[0]) is not None:
            return False
        name = name.lstrip(".")
        return name in self.environment.variables or name in self.environment.constants

    def _ident(self, node: Ident) -> None:
        if not self.scopes and node.name in self.environment.variables:
            node.type = self.environment.variables[node.name]
            return
        local = None if node.name.startswith(".") else self._local(node.name)
        name = node.name.lstrip(".")
        type_ = local or self.environment.variables.get(name)
        if type_ is None:
            constant = self.environment.constants.get(name)
            if constant is None:
                raise self.error(node, f"undeclared reference to '{name}' (in container '')")
            node.constant = TypeValue(constant.name)
            type_ = t.type_of(constant)
        elif local is None:
            node.name = f".{name}" if self._local(name) else name
        node.type = type_

    def _qualified(self, node: Select) -> Node:
        ident = Ident(node.offset, qualified_name(node) or "")
        self._ident(ident)
        return ident

    def _select(self, node: Select) -> None:
        found = self._field_type(node, node.operand.type, node.field)
        node.type = t.BOOL if node.test else found
        node.field = self._plain_name(node.operand.type, node.field)

    def _plain_name(self, operand: Type, field: str) -> str:
        """The name that a field has in the value: that of an object may be escaped in the text."""
        if not self.environment.escaped:
            return field
        target = self.substitutions.resolve(operand)
        while t.is_optional(target):
            target = target.params[0]
        return unescape(field) if target.kind == "object" else field

    def _field_type(self, node: Node, operand: Type, field: str) -> Type:
        target = self.substitutions.resolve(operand) if operand.generic else operand
        if target.kind == "map":
            return target.params[1]
        if t.is_optional(target):
            return t.optional_of(self._field_type(node, target.params[0], field))
        if target.kind == "object":
            found = self.environment.field(target, field)
            if found is None:
                raise self.error(node, f"undefined field '{field}'")
            return found
        if target.kind == "param":
            self.substitutions.assignable(t.DYN, target)
            return t.DYN
        if not target.dynamic:
            raise self.error(node, f"type '{target}' does not support field selection")
        return t.DYN

    def _call(self, node: Call, *, first_checked: bool) -> Step[None]:
        if node.function == "_?._":
            yield from self._optional_select(node, first_checked)
            return
        if not first_checked and node.target is not None:
            self._namespaced(node)
        if node.function[0] == ".":
            node.function = node.function.lstrip(".")
        args = node.args
        for index in range(1 if first_checked and node.target is None else 0, len(args)):
            args[index] = yield args[index]
        function = self.environment.functions.get(node.function)
        if function is None:
            raise self.error(node, f"undeclared reference to '{node.function}' (in container '')")
        operands = tuple([operand.type for operand in node.operands()])
        if node.function in ("_&&_", "_||_"):
            operands = self._logic_operands(node, operands)
        self._resolve(node, function.overloads, operands)

    def _namespaced(self, node: Call) -> None:
        """`strings.quote(x)` reads as a method of `strings` until the namespace is known."""
        if node.target is not None:
            node.function = f"{qualified_name(node.target)}.{node.function}"
            node.target = None

    def _logic_operands(self, node: Call, operands: tuple[Type, ...]) -> tuple[Type, ...]:
        for arg, operand in zip(node.args, operands, strict=True):
            if operand is not t.BOOL and not self.substitutions.assignable(operand, t.BOOL):
                raise self.error(node, self._no_overload(node, (operand, arg.type)))
        return operands[:2]

    def _resolve(self, node: Call, overloads: tuple[Overload, ...], operands: tuple[Type, ...]) -> None:
        member = node.target is not None
        known = self.environment.resolutions
        key = (node.function, member, operands)
        found = known.get(key)
        if found is not None:
            node.overloads, node.type = found
            return
        matching: list[str] = []
        result: Type | None = None
        for overload in overloads:
            if overload.member != member or len(overload.params) != len(operands):
                continue
            types = (*overload.params, overload.result)
            if overload.generic:
                types = self.substitutions.instantiate(types)
            if not self.substitutions.all_assignable(operands, types[:-1]):
                continue
            matching.append(overload.id)
            type_ = self.substitutions.resolve(types[-1])
            if result is None:
                result = type_
            elif not result.dynamic and type_ != result:
                result = t.DYN
        if result is None:
            raise self.error(node, self._no_overload(node, operands))
        node.overloads = tuple(matching)
        node.type = result
        concrete = not result.generic and not any([operand.generic for operand in operands])
        if concrete and len(known) < _MAX_RESOLUTIONS:
            known[key] = (node.overloads, node.type)

    def _no_overload(self, node: Call, operands: tuple[Type, ...]) -> str:
        shown = [str(self.substitutions.resolve(operand, final=True)) for operand in operands]
        receiver = f"{shown.pop(0)}." if node.target is not None else ""
        return f"found no matching overload for '{node.function}' applied to '{receiver}({', '.join(shown)})'"

    def _optional_select(self, node: Call, first_checked: bool) -> Step[None]:
        if not first_checked:
            node.args[0] = yield node.args[0]
        field = node.args[1]
        if not isinstance(field, Literal):
            raise self.error(node, "unsupported optional field selection")
        field.type = t.STRING
        found = self._field_type(node, node.args[0].type, str(field.value))
        field.value = self._plain_name(node.args[0].type, str(field.value))
        found = self.substitutions.resolve(found)
        node.type = found if t.is_optional(found) else t.optional_of(found)
        node.overloads = ("select_optional_field",)

    def _unwrapped(self, node: Node, optional: bool) -> Type:
        type_ = self.substitutions.resolve(node.type)
        if not optional:
            return type_
        if t.is_optional(type_):
            return type_.params[0]
        if type_.dynamic:
            return t.DYN
        raise self.error(node, f"expected type 'optional_type({type_})' but found '{type_}'")

    def _join(self, node: Node, joined: Type | None, current: Type) -> Type:
        if joined is None:
            return current
        if self.substitutions.assignable(joined, current):
            return joined if less_specific(joined, current) else current
        if self.environment.homogeneous:
            found = self.substitutions.resolve(current, final=True)
            wanted = self.substitutions.resolve(joined, final=True)
            raise self.error(node, f"expected type '{wanted}' but found '{found}'")
        return t.DYN

    def _list(self, node: ListNode) -> Step[None]:
        element: Type | None = None
        for index in range(len(node.elements)):
            checked = node.elements[index] = yield node.elements[index]
            element = self._join(checked, element, self._unwrapped(checked, index in node.optional))
        node.type = t.list_of(element or self.substitutions.fresh())

    def _map(self, node: MapNode) -> Step[None]:
        key: Type | None = None
        value: Type | None = None
        for index, (key_node, value_node) in enumerate(node.entries):
            checked_key = yield key_node
            checked_value = yield value_node
            node.entries[index] = (checked_key, checked_value)
            key = self._join(checked_key, key, self.substitutions.resolve(checked_key.type))
            value = self._join(checked_value, value, self._unwrapped(checked_value, index in node.optional))
        node.type = t.map_of(key or self.substitutions.fresh(), value or self.substitutions.fresh())

    def _comprehension(self, node: Comprehension) -> Step[None]:
        node.range = yield node.range
        node.init = yield node.init
        variables = self._loop_variables(node)
        self.scopes.append({node.accu: node.init.type})
        self.scopes.append(variables)
        node.condition = yield node.condition
        self.require(node.condition, t.BOOL)
        node.step = yield node.step
        self.require(node.step, node.init.type)
        self.scopes.pop()
        node.result = yield node.result
        self.scopes.pop()
        node.type = self.substitutions.resolve(node.result.type)

    def _loop_variables(self, node: Comprehension) -> dict[str, Type]:
        range_ = self.substitutions.resolve(node.range.type)
        if range_.kind == "list":
            first, second = t.INT, range_.params[0]
            single = range_.params[0]
        elif range_.kind == "map":
            first, second = range_.params
            single = first
        elif range_.kind in ("dyn", "param"):
            if range_.kind == "param":
                self.substitutions.assignable(t.DYN, range_)
            first = second = single = t.DYN
        else:
            raise self.error(
                node.range,
                f"expression of type '{range_}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
        return {node.var: single} if node.var2 is None else {node.var: first, node.var2: second}

    def require(self, node: Node, wanted: Type) -> None:
        if not self.substitutions.assignable(node.type, wanted):
            found = self.substitutions.resolve(node.type, final=True)
            expected = self.substitutions.resolve(wanted, final=True)
            raise self.error(node, f"expected type '{expected}' but found '{found}'")
