"""Semantic versions 2.0.0, parsed strictly and ordered by precedence (build metadata does not count)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from dray.api.caches import remember

_NUMBER = r"(0|[1-9]\d*)"
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_GRAMMAR = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_UINT64_MAX = 2**64 - 1


class SemverError(ValueError):
    """The text is not a semantic version."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Semver:
        match = _GRAMMAR.fullmatch(text)
        if match is None:
            raise SemverError(f"{text[:64]!r} is not a semantic version: write MAJOR.MINOR.PATCH, such as 1.2.3")
        *numbers, prerelease, build = match.groups()
        major, minor, patch = (_number(part) for part in numbers)
        identifiers = tuple(_number(part) if part.isdigit() else part for part in (prerelease or "").split(".") if part)
        return cls(major, minor, patch, identifiers, tuple(build.split(".")) if build else ())

    def __str__(self) -> str:
        prerelease = "-" + ".".join(map(str, self.prerelease)) if self.prerelease else ""
        build = "+" + ".".join(self.build) if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    def _key(self) -> tuple[object, ...]:
        # A release ranks above its prereleases; numeric identifiers rank below words.
        words = tuple((isinstance(part, str), part) for part in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, words)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@remember(4096)
def is_semver(text: str) -> bool:
    try:
        Semver.parse(text)
    except SemverError:
        return False
    return True


def _number(digits: str) -> int:
    if len(digits) > 20 or (number := int(digits)) > _UINT64_MAX:
        raise SemverError(f"number {digits[:24]}… in a semantic version is too large")
    return number
