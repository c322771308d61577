"""Regular expressions of clients, compiled by RE2: matching takes time linear in the text, whatever the pattern.

Compiling is not linear in the pattern: `[\\p{L}]{1,100}` has 15 characters and becomes 120,000 instructions, which take
30 ms. So instructions are counted. `limit` bounds what the patterns of one object may have together; each pattern is
bounded by the memory that RE2 may use for it, which is doubled until the pattern fits, so that a small pattern can
never grow to more than a small amount. The charge for a pattern does not depend on the cache.

Compiled patterns and refusals are cached by their memory: a pattern compiles in 0.02 to 100 ms, a look-up takes 0.2 µs.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Final

import re2

from dray.api.caches import Cache

MOST_IN_OBJECT: Final = 500_000
"""Instructions of all patterns of an object. They take about 0.2 s to compile."""
MOST_IN_DEFINITION: Final = 1_000_000
"""Instructions of all patterns in a CustomResourceDefinition, which may have hundreds of them."""
TOO_LARGE: Final = 200_000
"""Instructions charged for a pattern that is refused as too large: RE2 finds out in about 60 ms."""
LARGEST: Final = 8 << 20
_SMALLEST: Final = 32 << 10
_REFUSED: Final = b"pattern too large"
# Enough for all patterns of one object: an instruction takes at most 192 bytes, since the memory is doubled.
_CACHE: Final[Cache[str, Any]] = Cache(4096, 96 * 2**20)
_REMAINING: Final[ContextVar[list[int] | None]] = ContextVar("dray.cel.patterns", default=None)


class PatternError(Exception):
    """The pattern is no regular expression, is too large, or is one too many for its object."""

    def __init__(self, message: str, instructions: int = 0, tried: int = LARGEST) -> None:
        super().__init__(message)
        self.instructions = instructions
        self.tried = tried
        """The bytes of memory that were tried."""


class limit:
    """Inside, patterns that are charged have at most so many instructions together; an outer limit stays in force.

    Gives a list with what remains of the limit in force. A class enters in a third of the time of a generator, and
    every object that is written enters one.
    """

    __slots__ = ("_remaining", "_token")

    def __init__(self, instructions: int) -> None:
        self._remaining = [instructions]
        self._token: Token[list[int] | None] | None = None

    def __enter__(self) -> list[int]:
        outer = _REMAINING.get()
        if outer is not None:
            return outer
        self._token = _REMAINING.set(self._remaining)
        return self._remaining

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _REMAINING.reset(self._token)


def charge(instructions: int) -> None:
    """Raises PatternError if the limit in force does not allow so many instructions more."""
    remaining = _REMAINING.get()
    if remaining is None:
        return
    remaining[0] -= instructions
    if remaining[0] < 0:
        raise PatternError("the regular expressions of this object are too large together")


def charged(pattern: str) -> Any:
    """A compiled pattern, charged to the limit in force; raises PatternError. Beyond the limit nothing is compiled."""
    charge(0)
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:
        charge(error.instructions)
        raise
    charge(compiled.programsize)
    return compiled


def compile_pattern(pattern: str, largest: int = LARGEST) -> Any:
    """The compiled pattern; raises PatternError. `largest` bounds the bytes of memory that are tried."""
    found = _CACHE.get(pattern)
    if found is None or (isinstance(found, PatternError) and found.tried < largest):
        found, size = _compile(pattern, largest)
        _CACHE.put(pattern, found, size + 4 * len(pattern))
    if isinstance(found, PatternError):
        raise PatternError(str(found), found.instructions)
    return found


def _compile(pattern: str, largest: int) -> tuple[Any, int]:
    """The compiled pattern or the error, and the bytes to count for it."""
    memory = _SMALLEST
    while True:
        try:
            return re2.compile(pattern, _options(memory)), memory
        except re2.error as error:
            reason = error.args[0] if error.args else b"invalid"
        except UnicodeError:
            reason = b"invalid UTF-8"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        if _REFUSED.decode() not in text:
            return PatternError(text), 256
        if memory >= largest:
            return PatternError(text, TOO_LARGE, largest), 256
        memory *= 2


def _options(memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    return options
