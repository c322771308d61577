"""Cpusets: sets of CPU numbers in the list format of the kernel, such as `0-3,8,10-14:2`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

Cpuset: TypeAlias = frozenset[int]

# Larger than any kernel supports; a longer range is a mistake and would waste memory.
LARGEST_CPU: Final = 65535
# Ranges may overlap, and a long list of large ranges would take seconds to add up.
_MOST_NAMED: Final = 4 * (LARGEST_CPU + 1)


class CpusetError(ValueError):
    """Raised for a text that is not a list of CPUs."""


def parse_cpuset(text: str) -> Cpuset:
    """Parses the list format; an empty text is the empty set. Raises CpusetError."""
    found: set[int] = set()
    stripped = text.strip()
    if not stripped:
        return frozenset()
    named = 0
    for part in stripped.split(","):
        numbers = _range(part.strip(), text)
        named += len(numbers)
        if named > _MOST_NAMED:
            raise CpusetError(f"a list of CPUs of {len(text)} characters names CPUs too often: its ranges overlap")
        found.update(numbers)
    return frozenset(found)


def _range(part: str, text: str) -> range:
    bounds, _, stride = part.partition(":")
    first, dash, last = bounds.partition("-")
    numbers = [first, last if dash else first, stride or "1"]
    # isdecimal alone would accept digits of other scripts.
    if not all(number.isascii() and number.isdecimal() for number in numbers) or part.endswith(":"):
        raise CpusetError(f"{text!r} is not a list of CPUs: {part!r} should be a number or a range, as in 0-3,8")
    low, high, step = map(int, numbers)
    if low > high or step == 0:
        raise CpusetError(f"{text!r} is not a list of CPUs: the range {part!r} has nothing in it")
    if high > LARGEST_CPU:
        raise CpusetError(f"{text!r} is not a list of CPUs: {high} is more than {LARGEST_CPU}")
    return range(low, high + 1, step)


def format_cpuset(cpus: Iterable[int]) -> str:
    """Formats CPUs in the shortest list format without strides, as the kernel prints it."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1] = [parts[-1][0], cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
