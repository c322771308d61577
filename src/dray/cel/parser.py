"""Tokens to syntax tree, by precedence climbing. Macros are expanded on the way (`macros`).

Nesting is limited to what Kubernetes allows; chains of operators, selections and calls may be as long as the text.
"""

from __future__ import annotations

from dray.cel.errors import CompileError
from dray.cel.lexer import RESERVED, Token, tokenize
from dray.cel.macros import MACROS, MacroError
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


def parse(text: str) -> Node:
    """The tree of an expression; raises CompileError."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0
        self.token = self.tokens[0]
        self.nesting = 0

    def parse(self) -> Node:
        node = self.expression()
        if self.token.kind != "end":
            raise self.unexpected()
        return node

    def error(self, message: str, offset: int | None = None) -> CompileError:
        return CompileError(message, text=self.text, offset=self.token.offset if offset is None else offset)

    def unexpected(self) -> CompileError:
        return self.error(f"Syntax error: mismatched input {self.token.text!r}")

    def advance(self) -> Token:
        token = self.token
        self.index += 1
        self.token = self.tokens[self.index]
        return token

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind == "op"

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.unexpected()

    def expression(self) -> Node:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.error(f"expression recursion limit exceeded: {MAX_NESTING}")
        node = self.operators()
        if self.at("?"):
            offset = self.advance().offset
            then = self.operators()
            self.expect(":")
            node = Call(offset, "_?_:_", [node, then, self.expression()])
        self.nesting -= 1
        return node

    def operators(self) -> Node:
        """All binary operators, with one explicit stack instead of a call per level of precedence."""
        operands = [self.unary()]
        pending: list[tuple[int, str, int]] = []
        while self.token.kind in ("op", "keyword") and self.token.text in _BINARY:
            token = self.advance()
            precedence, function = _BINARY[token.text]
            while pending and pending[-1][0] >= precedence:
                _reduce(operands, pending)
            pending.append((precedence, function, token.offset))
            operands.append(self.unary())
        while pending:
            _reduce(operands, pending)
        return operands[0]

    def unary(self) -> Node:
        token = self.token
        if token.kind != "op" or token.text not in "!-":
            return self.member(self.primary())
        count = 0
        while self.at(token.text):
            self.advance()
            count += 1
        if token.text == "-" and self.token.kind == "literal" and type(self.token.value) in (int, float):
            count -= 1
            node = self.member(self.literal(negative=True))
        else:
            node = self.member(self.primary())
        function = "!_" if token.text == "!" else "-_"
        return Call(token.offset, function, [node]) if count % 2 else node

    def literal(self, *, negative: bool = False) -> Node:
        token = self.advance()
        value = token.value
        if type(value) is int:
            value = -value if negative else value
            if value == 2**63:
                raise self.error("invalid int literal", token.offset)
        elif negative:
            value = -value
        return Literal(token.offset, value)

    def primary(self) -> Node:
        token = self.token
        if token.kind == "literal":
            return self.literal()
        if token.kind == "keyword" and token.text in _KEYWORD_VALUES:
            self.advance()
            return Literal(token.offset, _KEYWORD_VALUES[token.text])
        if token.kind == "ident" or self.at("."):
            return self.identifier()
        if self.accept("("):
            node = self.expression()
            self.expect(")")
            return node
        if self.accept("["):
            return self.list_literal(token.offset)
        if self.accept("{"):
            return self.map_literal(token.offset)
        raise self.unexpected()

    def identifier(self) -> Node:
        offset = self.token.offset
        name = "." if self.accept(".") else ""
        if self.token.kind != "ident":
            raise self.unexpected()
        if self.token.text in RESERVED:
            raise self.error(f"reserved identifier: {self.token.text}")
        name += self.advance().text
        if self.at("("):
            call_offset = self.advance().offset
            return self.call(call_offset, name, self.arguments(")"), None)
        return Ident(offset, name)

    def member(self, node: Node) -> Node:
        while self.token.kind == "op":
            offset = self.token.offset
            if self.accept("."):
                node = self.selection(node, offset)
            elif self.accept("["):
                optional = self.accept("?")
                node = Call(offset, "_[?_]" if optional else "_[_]", [node, self.expression()])
                self.expect("]")
            elif self.at("{") and (name := qualified_name(node)) is not None:
                self.advance()
                node = self.struct_literal(offset, name)
            else:
                break
        return node

    def selection(self, node: Node, offset: int) -> Node:
        optional = self.accept("?")
        if self.token.kind not in ("ident", "escaped", "keyword"):
            raise self.unexpected()
        token = self.advance()
        if optional:
            return Call(offset, "_?._", [node, Literal(token.offset, token.text)])
        if token.kind != "escaped" and self.at("("):
            call_offset = self.advance().offset
            return self.call(call_offset, token.text, self.arguments(")"), node)
        if token.kind == "keyword":
            raise self.error(f"Syntax error: mismatched input {token.text!r}", token.offset)
        return Select(offset, node, token.text)

    def call(self, offset: int, function: str, args: list[Node], target: Node | None) -> Node:
        macro = MACROS.get((function, target is not None, len(args)))
        if macro is not None:
            try:
                expanded = macro(offset, target, args)
            except MacroError as error:
                raise self.error(str(error), error.offset) from None
            if expanded is not None:
                return expanded
        return Call(offset, function, args, target)

    def arguments(self, closing: str) -> list[Node]:
        args: list[Node] = []
        if not self.at(closing):
            args.append(self.expression())
            while self.accept(","):
                args.append(self.expression())
        self.expect(closing)
        return args

    def list_literal(self, offset: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self.at("]"):
            if self.accept("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if not self.accept(","):
                break
        self.expect("]")
        return ListNode(offset, elements, frozenset(optional))

    def map_literal(self, offset: int) -> Node:
        entries: list[tuple[Node, Node]] = []
        optional: set[int] = set()
        while not self.at("}"):
            if self.accept("?"):
                optional.add(len(entries))
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression()))
            if not self.accept(","):
                break
        self.expect("}")
        return MapNode(offset, entries, frozenset(optional))

    def struct_literal(self, offset: int, name: str) -> Node:
        values: list[Node] = []
        while not self.at("}"):
            self.accept("?")
            if self.token.kind not in ("ident", "escaped"):
                raise self.unexpected()
            self.advance()
            self.expect(":")
            values.append(self.expression())
            if not self.accept(","):
                break
        self.expect("}")
        return Struct(offset, name, values)


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
