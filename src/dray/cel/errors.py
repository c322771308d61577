"""What the language itself may raise; nothing else escapes from compiling or running an expression.

A `CompileError` knows its place in the text and can draw it. An `EvaluationError` is also the value that stands for
a failed operand while `&&`, `||` and the loops decide whether it matters.
"""

from __future__ import annotations

from functools import lru_cache


class CelError(Exception):
    """Anything wrong with an expression or with one evaluation of it."""


class CompileError(CelError):
    """The expression is refused before it ever runs."""

    def __init__(self, message: str, *, text: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.offset = min(offset, len(text))
        self.instructions = 0
        """Number of instructions in the regular expressions that were compiled before the error."""

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        return self.offset - (self.text.rfind("\n", 0, self.offset) + 1) + 1

    def render(self) -> str:
        """The message with its place, and the line of the text with a caret under that place."""
        return f"ERROR: <input>:{self.line}:{self.column}: {self.message}\n{self.excerpt()}"

    def excerpt(self) -> str:
        source = self.text.split("\n")[self.line - 1].replace("\t", " ")
        return f" | {source}\n | {'.' * (self.column - 1)}^"

    def __str__(self) -> str:
        return self.render() if self.text else self.message


class EvaluationError(CelError):
    """The expression failed on this input. Absorbed by `&&`, `||`, `all` and `exists` where CEL says so."""

    cost: int | None = None
    """Cost until the error; None if it was not counted."""
    offset: int | None = None
    """The place in the text, where that was asked for."""


class CostLimitExceeded(EvaluationError):
    """The expression did more work than is allowed. Never absorbed."""


class InternalFailure(EvaluationError):
    """Kubernetes panics here. The evaluation as a whole fails; never absorbed."""


@lru_cache(maxsize=1024)
def no_such_overload(function: str) -> EvaluationError:
    return EvaluationError(f"no such overload: {function}")
