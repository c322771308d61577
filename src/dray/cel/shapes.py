"""Terms that differ in nothing but literals and names of attributes are compiled once.

A fleet asks the same few questions with other models, sizes, attributes and domains, and joins them with `&&` in ever
other ways. So what is remembered is the term: a text is cut where `&&` stands outside of all brackets (`forms`), and
each term of a form seen before is filled with the literals of the text (`terms`); only the others are compiled.

What the terms tell of the whole - its cost, what it reads, the fast variant - is put together from them. Whatever
needs the tree of the text itself, as the exact variant and the places of errors do, makes that tree then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, Protocol

from dray.cel import emit
from dray.cel import types as t
from dray.cel.environment import Environment
from dray.cel.errors import CompileError
from dray.cel.estimate_sizes import cap
from dray.cel.forms import Part, Shape, forget, names_of, parts_of, shape_of
from dray.cel.program import Program, Tree, fast_enough
from dray.cel.reads import Reads, merged
from dray.cel.syntax import Call
from dray.cel.terms import Term
from dray.cel.types import Type
from dray.cel.values import Value

_MAX_FORMS: Final = 64
# Of one form.
_MAX_TERMS: Final = 4
# Characters of all terms. The tree and the code of a term take some hundred bytes for each.
_MAX_SIZE: Final = 32 * 1024

Key = tuple[str, tuple[str, ...], bool, Environment]
"""A form, the names in it or none of them, and whether it is an operand of `&&`."""


class Compile(Protocol):
    def __call__(self, expression: str, environment: Environment, *, wanted: Type | None = None) -> Program: ...


class Filled(Program):
    """Terms with the literals of a text."""

    def __init__(self, expression: str, terms: list[tuple[Term, list[str]]], compile_: Compile) -> None:
        first = terms[0][0]
        self.expression = expression
        self.environment = first.environment
        self.result_type = first.root.type if len(terms) == 1 else t.BOOL
        self._known_tree = None
        self._run_fast = False
        self._terms = terms
        self._compile = compile_

    @property
    def tree(self) -> Tree:
        if self._known_tree is None:
            self._known_tree = self._compile(self.expression, self.environment).tree
        return self._known_tree

    @property
    def nodes(self) -> int:
        return sum([term.nodes for term, _ in self._terms]) + (len(self._terms) > 1)

    @cached_property
    def estimated_cost(self) -> int:
        return cap(sum([term.cost(literals) for term, literals in self._terms]))

    @cached_property
    def reads(self) -> Reads:
        return merged([(term.reads, term.names(literals)) for term, literals in self._terms])

    def _compile_fast(self) -> Callable[[Any], Value] | None:
        nodes = int(len(self._terms) > 1)
        highest = 0
        for term, _ in self._terms:
            nodes += term.nodes
            highest += term.highest_cost
        if not fast_enough(nodes, highest) and not self.may_run_fast:
            return None
        functions: list[Callable[..., Value]] = []
        for term, literals in self._terms:
            function = term.fast(literals)
            if function is None:
                return None
            functions.append(function)
        return functions[0] if len(functions) == 1 else _joined(functions)


def _joined(functions: list[Callable[..., Value]]) -> Callable[..., Value]:
    code, names = _conjunction(len(functions))
    namespace: dict[str, Any] = dict(zip(names, functions, strict=True))
    namespace["__builtins__"] = {}
    # Code of its own: the interpreter adapts code to the functions that it calls.
    return FunctionType(code.replace(), namespace)


@lru_cache(maxsize=16)
def _conjunction(count: int) -> tuple[CodeType, list[str]]:
    """`f0(device) and f1(device) and ...`: of so many functions, and their names."""
    device = emit.name("device")
    names = [f"f{index}" for index in range(count)]
    body = emit.return_(emit.all_of([emit.call(name, device) for name in names]))
    run: Callable[..., Value] = emit.load([emit.function("run", ["device"], [body])], "run", {})
    return run.__code__, names


class Shapes:
    """The terms of forms seen lately; those that came first are forgotten first."""

    def __init__(self, compile_: Compile) -> None:
        self._compile = compile_
        self._terms: dict[Key, list[Term]] = {}
        # At least what they are; counted anew when it seems too much.
        self._size = 0

    def program(self, expression: str, environment: Environment) -> Program:
        """A program for the expression, filled in where terms are known; raises CompileError."""
        shape = shape_of(expression)
        if shape is None:
            return self._compile(expression, environment)
        parts = parts_of(shape.form)
        operand = len(parts) > 1
        terms: list[tuple[Term, list[str]]] = []
        for form, start, end in parts:
            literals = shape.literals[start:end]
            term = self._known(form, literals, operand, environment)
            if term is None:
                return self._partly_new(expression, shape, parts, environment)
            terms.append((term, literals))
        return Filled(expression, terms, self._compile)

    def clear(self) -> None:
        self._terms.clear()
        self._size = 0
        forget()

    def _partly_new(self, expression: str, shape: Shape, parts: tuple[Part, ...], environment: Environment) -> Program:
        literals = [shape.literals[part.start : part.end] for part in parts]
        terms = [
            self._known(part.form, own, len(parts) > 1, environment) for part, own in zip(parts, literals, strict=True)
        ]
        if not any(terms):
            return self._all_new(expression, shape, parts, environment)
        try:
            found = [
                (term or self._new(Shape(part.form, own), environment), own)
                for part, own, term in zip(parts, literals, terms, strict=True)
            ]
        except CompileError:
            # The whole text has the places of its errors.
            return self._compile(expression, environment)
        return Filled(expression, found, self._compile)

    def _all_new(self, expression: str, shape: Shape, parts: tuple[Part, ...], environment: Environment) -> Program:
        program = self._compile(expression, environment)
        root = program.root
        if len(parts) == 1:
            self._remember(Term(root, environment, shape, parts[0], operand=False), parts[0].form)
        # A first term in brackets that is a conjunction itself is one with the whole.
        elif isinstance(root, Call) and len(root.args) == len(parts):
            for term, part in zip(root.args, parts, strict=True):
                self._remember(Term(term, environment, shape, part, operand=True), part.form)
        return program

    def _new(self, shape: Shape, environment: Environment) -> Term:
        """A term by itself, as an operand of `&&`."""
        root = self._compile(shape.text, environment, wanted=t.BOOL).root
        term = Term(root, environment, shape, Part(shape.form, 0, len(shape.literals)), operand=True)
        self._remember(term, shape.form)
        return term

    def _known(self, form: str, literals: list[str], operand: bool, environment: Environment) -> Term | None:
        terms = self._terms.get((form, (), operand, environment))
        if terms is None:
            return None
        for term in terms:
            if term.fits(literals):
                return term
        names = names_of(literals)
        for term in self._terms.get((form, names, operand, environment), ()) if names else ():
            if term.fits(literals):
                return term
        return None

    def _remember(self, term: Term, form: str) -> None:
        """Where a term of the form is known that does not serve, each name has terms of its own."""
        key: Key = (form, (), term.operand, term.environment)
        if key in self._terms:
            key = (form, names_of(term.literals), term.operand, term.environment)
        known = self._terms.setdefault(key, [])
        known.append(term)
        del known[:-_MAX_TERMS]
        self._size += term.size
        while len(self._terms) > _MAX_FORMS or self._too_large():
            # A copy, because another thread may remember something meanwhile.
            oldest, *_ = list(self._terms)
            self._terms.pop(oldest, None)

    def _too_large(self) -> bool:
        if self._size > _MAX_SIZE:
            self._size = sum([term.size for terms in list(self._terms.values()) for term in terms])
        return self._size > _MAX_SIZE
