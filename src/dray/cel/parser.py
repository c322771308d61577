"""Tokens to syntax tree, by precedence climbing. Macros are expanded on the way (`macros`).

Nesting is limited to what Kubernetes allows; chains of operators, selections and calls may be as long as the text.
"""

from __future__ import annotations

from dray.cel.errors import CompileError
from dray.cel.lexer import RESERVED, tokenize
from dray.cel.macros import MACROS, MacroError
from dray.cel.recursion import Step, run
from dray.cel.syntax import Call, Ident, ListNode, Literal, MapNode, Node, Select, Struct

MAX_NESTING = 250
_MAX_QUALIFIERS = 8

_BINARY = {
    "||": (1, "_||_"),
    "&&": (2, "_&&_"),
    "==": (3, "_==_"),
    "!=": (3, "_!=_"),
    "<": (3, "_<_"),
    "<=": (3, "_<=_"),
    ">": (3, "_>_"),
    ">=": (3, "_>=_"),
    "in": (3, "@in"),
    "+": (4, "_+_"),
    "-": (4, "_-_"),
    "*": (5, "_*_"),
    "/": (5, "_/_"),
    "%": (5, "_%_"),
}
_KEYWORD_VALUES = {"true": True, "false": False, "null": None}
_FIELDS = frozenset(("ident", "escaped", "in", *_KEYWORD_VALUES))


def parse(text: str) -> Node:
    """The tree of an expression; raises CompileError."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self._following = iter(tokenize(text)).__next__
        self.nesting = 0
        self.advance()

    def parse(self) -> Node:
        node = run(self.expression())
        if self.kind != "end":
            raise self.unexpected()
        return node

    def error(self, message: str, offset: int | None = None) -> CompileError:
        return CompileError(message, text=self.text, offset=self.offset if offset is None else offset)

    def unexpected(self) -> CompileError:
        return self.error(f"Syntax error: mismatched input {self.symbol!r}")

    def advance(self) -> None:
        """Moves on; the token is in `kind`, `symbol`, `value` and `offset`."""
        self.kind, self.symbol, self.value, self.offset = self._following()

    def accept(self, kind: str) -> bool:
        if self.kind == kind:
            self.advance()
            return True
        return False

    def expect(self, kind: str) -> None:
        if self.kind != kind:
            raise self.unexpected()
        self.advance()

    def expression(self) -> Step[Node]:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.error(f"expression recursion limit exceeded: {MAX_NESTING}")
        node = yield from self.operators()
        if self.kind == "?":
            offset = self.offset
            self.advance()
            then = yield from self.operators()
            self.expect(":")
            otherwise = yield self.expression()
            node = Call(offset, "_?_:_", [node, then, otherwise])
        self.nesting -= 1
        return node

    def operators(self) -> Step[Node]:
        """Parses binary operators of every precedence with one explicit stack."""
        node = yield from self.unary()
        if self.kind not in _BINARY:
            return node
        operands = [node]
        pending: list[tuple[int, str, int]] = []
        while self.kind in _BINARY:
            precedence, function = _BINARY[self.kind]
            while pending and pending[-1][0] >= precedence:
                _reduce(operands, pending)
            pending.append((precedence, function, self.offset))
            self.advance()
            operands.append((yield from self.unary()))
        while pending:
            _reduce(operands, pending)
        return operands[0]

    def unary(self) -> Step[Node]:
        sign, offset = self.kind, self.offset
        if sign != "!" and sign != "-":
            return (yield from self.member((yield from self.primary())))
        count = 0
        while self.kind == sign:
            self.advance()
            count += 1
        if sign == "-" and self.kind == "literal" and type(self.value) in (int, float):
            count -= 1
            node = yield from self.member(self.literal(negative=True))
        else:
            node = yield from self.member((yield from self.primary()))
        function = "!_" if sign == "!" else "-_"
        return Call(offset, function, [node]) if count % 2 else node

    def literal(self, *, negative: bool = False) -> Node:
        value, offset = self.value, self.offset
        self.advance()
        if type(value) is int:
            value = -value if negative else value
            if value == 2**63:
                raise self.error("invalid int literal", offset)
        elif negative:
            value = -value
        return Literal(offset, value)

    def primary(self) -> Step[Node]:
        kind, offset = self.kind, self.offset
        if kind == "literal":
            return self.literal()
        if kind == "ident" or kind == ".":
            return (yield from self.identifier())
        if kind in _KEYWORD_VALUES:
            self.advance()
            return Literal(offset, _KEYWORD_VALUES[kind])
        if self.accept("("):
            node: Node = yield self.expression()
            self.expect(")")
            return node
        if self.accept("["):
            return (yield from self.list_literal(offset))
        if self.accept("{"):
            return (yield from self.map_literal(offset))
        raise self.unexpected()

    def identifier(self) -> Step[Node]:
        offset = self.offset
        leading = self.kind == "." and self.accept(".")
        if self.kind != "ident":
            raise self.unexpected()
        if self.symbol in RESERVED:
            raise self.error(f"reserved identifier: {self.symbol}")
        name = f".{self.symbol}" if leading else self.symbol
        self.advance()
        if self.kind == "(":
            return (yield from self.call(name, None))
        return Ident(offset, name)

    def member(self, node: Node) -> Step[Node]:
        while True:
            kind, offset = self.kind, self.offset
            if kind == ".":
                self.advance()
                node = yield from self.selection(node, offset)
            elif kind == "[":
                self.advance()
                optional = self.kind == "?" and self.accept("?")
                node = Call(offset, "_[?_]" if optional else "_[_]", [node, (yield self.expression())])
                self.expect("]")
            elif kind == "{" and (name := qualified_name(node)) is not None:
                self.advance()
                node = yield from self.struct_literal(offset, name)
            else:
                return node

    def selection(self, node: Node, offset: int) -> Step[Node]:
        optional = self.kind == "?" and self.accept("?")
        kind, field, place = self.kind, self.symbol, self.offset
        if kind not in _FIELDS:
            raise self.unexpected()
        self.advance()
        if optional:
            return Call(offset, "_?._", [node, Literal(place, field)])
        if self.kind == "(" and kind != "escaped":
            return (yield from self.call(field, node))
        if kind not in ("ident", "escaped"):
            raise self.error(f"Syntax error: mismatched input {field!r}", place)
        return Select(offset, node, field)

    def call(self, function: str, target: Node | None) -> Step[Node]:
        offset = self.offset
        self.advance()
        args = yield from self.arguments(")")
        macro = MACROS.get((function, target is not None, len(args)))
        if macro is not None:
            try:
                expanded = macro(offset, target, args)
            except MacroError as error:
                raise self.error(str(error), error.offset) from None
            if expanded is not None:
                return expanded
        return Call(offset, function, args, target)

    def arguments(self, closing: str) -> Step[list[Node]]:
        args: list[Node] = []
        if self.kind != closing:
            args.append((yield self.expression()))
            while self.accept(","):
                args.append((yield self.expression()))
        self.expect(closing)
        return args

    def list_literal(self, offset: int) -> Step[Node]:
        elements: list[Node] = []
        optional: set[int] = set()
        while self.kind != "]":
            if self.accept("?"):
                optional.add(len(elements))
            elements.append((yield self.expression()))
            if not self.accept(","):
                break
        self.expect("]")
        return ListNode(offset, elements, frozenset(optional))

    def map_literal(self, offset: int) -> Step[Node]:
        entries: list[tuple[Node, Node]] = []
        optional: set[int] = set()
        while self.kind != "}":
            if self.accept("?"):
                optional.add(len(entries))
            key = yield self.expression()
            self.expect(":")
            entries.append((key, (yield self.expression())))
            if not self.accept(","):
                break
        self.expect("}")
        return MapNode(offset, entries, frozenset(optional))

    def struct_literal(self, offset: int, name: str) -> Step[Node]:
        fields: list[str] = []
        values: list[Node] = []
        optional = set()
        while self.kind != "}":
            if self.accept("?"):
                optional.add(len(fields))
            if self.kind not in ("ident", "escaped"):
                raise self.unexpected()
            fields.append(self.symbol)
            self.advance()
            self.expect(":")
            values.append((yield self.expression()))
            if not self.accept(","):
                break
        self.expect("}")
        return Struct(offset, name, fields, values, frozenset(optional))


def _reduce(operands: list[Node], pending: list[tuple[int, str, int]]) -> None:
    _, function, offset = pending.pop()
    right = operands.pop()
    left = operands.pop()
    if function in ("_&&_", "_||_") and isinstance(left, Call) and left.function == function:
        left.args.append(right)
        operands.append(left)
    else:
        operands.append(Call(offset, function, [left, right]))


def qualified_name(node: Node) -> str | None:
    """`a.b.c` when the node is nothing but names, and not too many to be a declared one."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test and len(parts) < _MAX_QUALIFIERS:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))
