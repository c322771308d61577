"""A compiled term, to be filled with the literals of other texts.

In most places a literal means nothing to the compiler: whatever stands there, the term compiles, has the same type,
and its fast variant is the same code with another constant. Such a literal is free; all others (patterns, durations,
elements of lists) belong to the term, as its form does. What it costs and what it reads follows from its tree too.
A name that is a literal (`forms`) is free if it is selected from a map, or from what may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from dray.cel.blanks import Open
from dray.cel.constants import Constant, Folder
from dray.cel.environment import Environment
from dray.cel.estimate import estimate_cost
from dray.cel.estimate_sizes import Size
from dray.cel.fast import Unsupported, compile_open
from dray.cel.forms import MAX_LITERAL, Part, Shape
from dray.cel.reads import Reads, find_reads
from dray.cel.room import compiling
from dray.cel.syntax import Call, Literal, Node, Select, walk
from dray.cel.types import Type, is_optional
from dray.cel.values import Value

_KNOWN_COSTS: Final = 16
# No string of a text that has a shape begins with this.
_PLACE: Final = "\x01"

# The arguments of calls in which a literal is free. None of these calls is ever a constant itself, and a longer
# literal never makes one cheaper.
_FREE: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), (0, 1)),
    **dict.fromkeys(("_[_]", "_[?_]"), (1,)),
    **dict.fromkeys(("@in", "quantity", "semver", "startsWith", "endsWith"), (0,)),
}


class Term:
    """A text by itself, or an `operand` of `&&`, which then yields bool in any case."""

    def __init__(self, root: Node, environment: Environment, shape: Shape, part: Part, *, operand: bool) -> None:
        """`root` is the checked tree of that part of the shape."""
        self.root = root
        self.environment = environment
        self._shape = shape
        self._part = part
        self.literals = shape.literals[part.start : part.end]
        self.operand = operand
        self._costs: dict[tuple[int, ...], int] = {}
        # Of many texts only one term differs, so the latest is kept.
        self._filled: tuple[list[str], Callable[..., Value] | None] | None = None
        self.size = len(part.form) + sum(map(len, self.literals))
        """In characters."""

    @cached_property
    def nodes(self) -> int:
        return len(walk(self.root))

    def fits(self, literals: list[str]) -> bool:
        """Whether a text of the same form has the same literals wherever one is not free."""
        own = self.literals
        for position in self._fixed:
            if literals[position] != own[position]:
                return False
        return True

    def fast(self, literals: list[str]) -> Callable[..., Value] | None:
        """The fast variant with other literals."""
        filled = self._filled
        if filled is None or filled[0] != literals:
            filled = self._filled = (literals, self._fill(literals))
        return filled[1]

    def cost(self, literals: list[str]) -> int:
        """The estimated cost with other literals; only how long they are counts."""
        return self._cost(tuple([len(literals[position]) - 2 for position in self._strings]))

    @cached_property
    def highest_cost(self) -> int:
        """What it costs at most, whatever is filled in."""
        return self._cost((MAX_LITERAL,) * len(self._strings))

    def names(self, literals: list[str]) -> dict[str | None, str]:
        """What the places in `reads` stand for with other literals."""
        own = [(place, literals[position]) for position, place in self._places.items()]
        return {place: literal[2:] if literal[0] == "]" else literal[1:-1] for place, literal in own}

    def _fill(self, literals: list[str]) -> Callable[..., Value] | None:
        if self._open is None:
            return None
        texts = list(literals)
        for position in self._negative:
            texts[position] = "-" + texts[position]
        values = [text[1:-1] if text[0] in "\"'" else text[2:] if text[0] == "]" else int(text) for text in texts]
        return self._open.fill(values)

    def _cost(self, lengths: tuple[int, ...]) -> int:
        cost = self._costs.get(lengths)
        if cost is None:
            sizes: dict[Node, Size] = {
                self._free[at]: (length, length) for at, length in zip(self._strings, lengths, strict=True)
            }
            with compiling():
                cost = estimate_cost(self.root, sizes)
            if len(self._costs) >= _KNOWN_COSTS:
                self._costs.clear()
            self._costs[lengths] = cost
        return cost

    @cached_property
    def reads(self) -> Reads:
        """What it reads, with places instead of free literals."""
        places: dict[Node, str] = {self._free[position]: place for position, place in self._places.items()}
        return find_reads(self.root, _Places(self._folder, places), places)

    @cached_property
    def _folder(self) -> Folder:
        return Folder(self.environment, self._shape.text)

    @cached_property
    def _fixed(self) -> list[int]:
        return [position for position in range(len(self.literals)) if position not in self._free]

    @cached_property
    def _free(self) -> dict[int, Literal | Select]:
        """The positions of free literals, and the node of each."""
        free: dict[int, Literal | Select] = {}
        for node in walk(self.root):
            if type(node) is Select:
                if not _declared_fields(node.operand.type):
                    # What is selected by name begins with the bracket before the dot.
                    free[node.dot - 1] = node
            elif isinstance(node, Call) and node.function in _FREE:
                for position in _FREE[node.function]:
                    argument = node.args[position] if position < len(node.args) else None
                    if isinstance(argument, Literal):
                        free[argument.offset] = argument
        text = self._shape.text
        return {
            position: free[offset]
            for position, offset in enumerate(self._shape.offsets()[self._part.start : self._part.end])
            if offset in free and not _minus_zero(text, offset)
        }

    @cached_property
    def _strings(self) -> list[int]:
        return [at for at, node in self._free.items() if type(node) is Literal and type(node.value) is str]

    @cached_property
    def _places(self) -> dict[int, str]:
        """What stands for free strings and names, by position."""
        names = [position for position, node in self._free.items() if type(node) is Select]
        return {position: f"{_PLACE}{position}" for position in (*self._strings, *names)}

    @cached_property
    def _negative(self) -> list[int]:
        """The positions of numbers that have a minus."""
        literals = [(at, node.value) for at, node in self._free.items() if type(node) is Literal]
        return [at for at, value in literals if type(value) is int and value < 0]

    @cached_property
    def _open(self) -> Open | None:
        blanks: dict[Node, int] = {node: position for position, node in self._free.items()}
        try:
            with compiling():
                return compile_open(self.root, self.environment, self._folder, blanks, operand=self.operand)
        except (Unsupported, RecursionError, SyntaxError):
            return None


def _minus_zero(text: str, offset: int) -> bool:
    """Whether a literal is a zero whose value does not tell that it has a minus, as others of the shape have."""
    return text[offset] == "0" and text[:offset].rstrip().endswith("-")


def _declared_fields(type_: Type) -> bool:
    """Whether it depends on the name if something can be selected, and of which type that is."""
    while is_optional(type_):
        type_ = type_.params[0]
    return type_.kind == "object"


class _Places(Folder):
    """Constants with some literals replaced."""

    def __init__(self, folder: Folder, places: Mapping[Node, str]) -> None:
        self._folder = folder
        self._places = places

    def fold(self, node: Node) -> Constant | None:
        place = self._places.get(node) if type(node) is Literal else None
        return self._folder.fold(node) if place is None else Constant(place)
