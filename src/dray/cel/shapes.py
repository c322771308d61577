"""Expressions that differ in nothing but literals are compiled once.

A fleet asks the same few questions with other models, sizes and domains. What is left of a text without its plain
strings and whole numbers is its shape. In most places a literal means nothing to the compiler: whatever stands there,
the expression compiles, has the same type, and its fast variant is the same code with another constant. Such a literal
is free; all others (patterns, durations, elements of lists) belong to the template, as the shape does.

A text of a known shape becomes a `Filled` program. Whatever needs the tree of the text itself - its cost, what it
reads, the exact variant and the places of its errors - makes that tree then, as for any other text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final, NamedTuple

from dray.cel.environment import Environment
from dray.cel.fast import Open, Unsupported, compile_open
from dray.cel.program import Program, Tree
from dray.cel.room import compiling
from dray.cel.syntax import Call, Literal, Node, walk
from dray.cel.values import Value

Compile = Callable[[str, Environment], Program]

_LITERAL: Final = re.compile(
    r"""("[^"\\\n\r]*" | '[^'\\\n\r]*' | (?<![\w.])[0-9]{1,18}(?![\w.]))""", re.ASCII | re.VERBOSE
)
# Where these are outside of plain literals, the text is left to the compiler: escapes, long strings, comments.
_INTRICATE: Final = re.compile(r"""["'`\\]|//""")
_STRING_MARK: Final = "\x01"
_INTEGER_MARK: Final = "\x02"
_MARK: Final = re.compile("[\x01\x02]")
_MAX_TEXT: Final = 1024
_MAX_LITERAL: Final = 128
_MAX_SHAPES: Final = 64
# Of one shape.
_MAX_TEMPLATES: Final = 4

# The arguments of calls in which a literal is free. None of these calls is ever a constant itself, and a longer
# literal never makes one cheaper.
_FREE: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), (0, 1)),
    **dict.fromkeys(("_[_]", "_[?_]"), (1,)),
    **dict.fromkeys(("@in", "quantity", "semver", "startsWith", "endsWith"), (0,)),
}


class Shape(NamedTuple):
    form: str
    """The text with marks in place of literals."""
    literals: list[str]
    """As they stand in the text."""


def shape_of(text: str) -> Shape | None:
    """None where the text is too long, or not simple enough to tell its literals without the lexer."""
    if len(text) > _MAX_TEXT:
        return None
    parts = _LITERAL.split(text)
    literals = parts[1::2]
    parts[1::2] = [_STRING_MARK if literal[0] in "\"'" else _INTEGER_MARK for literal in literals]
    form = "".join(parts)
    return None if _INTRICATE.search(form) else Shape(form, literals)


class Template:
    """What texts of one shape, with the same literals wherever one is not free, have in common."""

    def __init__(self, program: Program, shape: Shape, compile_: Compile) -> None:
        self.result_type = program.result_type
        self.environment = program.environment
        self.compile = compile_
        self._program = program
        self._shape = shape

    def fits(self, literals: list[str]) -> bool:
        """Whether a text of the shape has the same literals wherever one is not free."""
        own = self._shape.literals
        for position in self._fixed:
            if literals[position] != own[position]:
                return False
        return True

    def fast(self, literals: list[str]) -> Callable[..., Value] | None:
        """The fast variant with other literals."""
        if self._open is None:
            return None
        values = [literal[1:-1] if literal[0] in "\"'" else int(literal) for literal in literals]
        for position in self._negative:
            values[position] = -values[position]  # type: ignore[operator]
        return self._open.fill(values)

    @cached_property
    def surely_cheap(self) -> bool:
        """Whether no text of the template may cost too much for a fast variant."""
        literals = list(self._shape.literals)
        for position in self._free:
            if literals[position][0] in "\"'":
                literals[position] = f'"{"x" * _MAX_LITERAL}"'
        parts = _MARK.split(self._shape.form)
        text = "".join([part for pair in zip(parts, [*literals, ""], strict=True) for part in pair])
        return self.compile(text, self.environment).may_run_fast

    @cached_property
    def _fixed(self) -> list[int]:
        return [position for position in range(len(self._shape.literals)) if position not in self._free]

    @cached_property
    def _free(self) -> dict[int, Literal]:
        """The positions of free literals, and the node of each."""
        free: dict[int, Literal] = {}
        for node in walk(self._program.root):
            if isinstance(node, Call) and node.function in _FREE:
                for position in _FREE[node.function]:
                    argument = node.args[position] if position < len(node.args) else None
                    if isinstance(argument, Literal):
                        free[argument.offset] = argument
        return {
            position: free[offset]
            for position, offset in enumerate(_offsets(self._shape))
            if offset in free and not self._minus_zero(offset)
        }

    def _minus_zero(self, offset: int) -> bool:
        """Whether a literal is a zero whose value does not tell that it has a minus, as others of the shape have."""
        text = self._program.expression
        return text[offset] == "0" and text[:offset].rstrip().endswith("-")

    @cached_property
    def _negative(self) -> list[int]:
        """The positions of numbers that have a minus."""
        return [at for at, node in self._free.items() if type(node.value) is int and node.value < 0]

    @cached_property
    def _open(self) -> Open | None:
        blanks: dict[Node, int] = {node: position for position, node in self._free.items()}
        try:
            with compiling():
                return compile_open(self._program.root, self.environment, self._program.tree.folder, blanks)
        except (Unsupported, RecursionError, SyntaxError):
            return None


def _offsets(shape: Shape) -> Iterable[int]:
    """Where in the text the literals start."""
    longer = 0
    for match, literal in zip(_MARK.finditer(shape.form), shape.literals, strict=True):
        yield match.start() + longer
        longer += len(literal) - 1


class Filled(Program):
    """A template with the literals of a text."""

    def __init__(self, expression: str, template: Template, literals: list[str]) -> None:
        self.expression = expression
        self.environment = template.environment
        self.result_type = template.result_type
        self._known_tree = None
        self._run_fast = False
        self._template = template
        self._literals = literals

    @property
    def tree(self) -> Tree:
        if self._known_tree is None:
            self._known_tree = self._template.compile(self.expression, self.environment).tree
        return self._known_tree

    def _compile_fast(self) -> Callable[[Any], Value] | None:
        if self._template.surely_cheap:
            return self._template.fast(self._literals)
        return super()._compile_fast()


class Shapes:
    """The templates of shapes seen lately; those that came first are forgotten first."""

    def __init__(self, compile_: Compile) -> None:
        self._compile = compile_
        self._templates: dict[tuple[str, Environment], list[Template]] = {}

    def program(self, expression: str, environment: Environment) -> Program:
        """A program for the expression, filled in where a template is known; raises CompileError."""
        shape = shape_of(expression)
        if shape is None:
            return self._compile(expression, environment)
        known = self._templates.get((shape.form, environment), [])
        for template in known:
            if template.fits(shape.literals) and max(map(len, shape.literals), default=0) <= _MAX_LITERAL:
                return Filled(expression, template, shape.literals)
        program = self._compile(expression, environment)
        latest = [*known, Template(program, shape, self._compile)][-_MAX_TEMPLATES:]
        while len(self._templates) >= _MAX_SHAPES:
            self._templates.pop(next(iter(self._templates)), None)
        self._templates[shape.form, environment] = latest
        return program

    def clear(self) -> None:
        self._templates.clear()
