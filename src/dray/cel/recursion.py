"""Recursion over nested expressions on a stack of its own.

Kubernetes lets expressions nest 250 levels deep, and a pass over them makes several calls a level: more than Python's
default limit of 1,000, whose change would affect the whole process. So the passes are generators (steps): where they
need the result of a nested expression they `yield` it, or a step, and `run` sends the result back. Within one level
they call each other by `yield from`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, TypeVar

T = TypeVar("T")

Step = Generator[Any, Any, T]


def run(step: Step[T], visit: Callable[[Any], Step[Any]] | None = None) -> T:
    """What a step returns; `visit` makes the steps for what is yielded and is none."""
    waiting: list[Step[Any]] = []
    current: Step[Any] = step
    value: Any = None
    while True:
        try:
            nested = current.send(value)
        except StopIteration as stopped:
            value = stopped.value
            if not waiting:
                returned: T = value
                return returned
            current = waiting.pop()
        else:
            waiting.append(current)
            current = nested if visit is None or type(nested) is GeneratorType else visit(nested)
            value = None
