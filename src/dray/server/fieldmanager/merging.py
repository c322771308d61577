"""Merging of two documents of a type: the second wins where both have a leaf.

Lists by keys keep the order of the first as far as the second does not contradict it.
"""

from __future__ import annotations

from typing import Any

from dray.server.fieldmanager.field_types import ATOMIC, FieldType
from dray.server.fieldmanager.walks import ABSENT, is_list, is_object


def merged(kind: FieldType, live: Any, applied: Any) -> Any:
    """`ABSENT` where neither has anything. What only one of them has is taken as it is, not copied."""
    if applied is ABSENT or live is ABSENT:
        return live if applied is ABSENT else applied
    if (not live and not applied) or not _granular(kind, live, applied):
        return applied
    if is_object(kind, live) or is_object(kind, applied):
        return _merged_objects(kind, live, applied)
    return _merged_lists(kind, live, applied)


def _granular(kind: FieldType, live: Any, applied: Any) -> bool:
    """Whether both are of the same granular shape, where null fits every shape."""
    if is_object(kind, live):
        return applied is None or is_object(kind, applied)
    if is_list(kind, live):
        return applied is None or is_list(kind, applied)
    return live is None and (is_object(kind, applied) or is_list(kind, applied))


def _merged_objects(kind: FieldType, live: Any, applied: Any) -> Any:
    first, second = (value if isinstance(value, dict) else {} for value in (live, applied))
    result = {}
    for name in {**first, **second}:
        value = merged(kind.member(name) or ATOMIC, first.get(name, ABSENT), second.get(name, ABSENT))
        if value is not ABSENT:
            result[name] = value
    return result


def _merged_lists(kind: FieldType, live: Any, applied: Any) -> Any:
    first = _with_steps(kind, live)
    second = _with_steps(kind, applied)
    of_first: dict[str, Any] = {}
    for step, item in first:
        # Of an item that the live list holds twice, neither is merged with.
        of_first[step] = ABSENT if step in of_first else item
    of_second = dict(second)
    return _Weaver(kind, of_first, of_second).weave(first, [step for step, _ in second])


def _with_steps(kind: FieldType, items: Any) -> list[tuple[str, Any]]:
    if not isinstance(items, list):
        return []
    return [(kind.step(item) or f"i:{index}", item) for index, item in enumerate(items)]


class _Weaver:
    """Goes through both lists at once; items that both have come in the order of the second."""

    def __init__(self, kind: FieldType, first: dict[str, Any], second: dict[str, Any]) -> None:
        self.items = kind.items or ATOMIC
        self.first = first
        self.second = second
        self.out: list[Any] = []
        self.done: set[str] = set()

    def weave(self, first: list[tuple[str, Any]], second: list[str]) -> list[Any]:
        shared = iter([step for step in second if step in self.first])
        following = next(shared, None)
        left = right = 0
        while left < len(first) or right < len(second):
            if left < len(first):
                step, item = first[left]
                if step not in self.second:
                    self.out.append(item)
                    left += 1
                    continue
                if step in self.done:
                    left += 1
                    continue
                if right < len(second) and step != second[right] and following not in (None, step):
                    # Both have it, and the second wants another one first.
                    left += 1
                    continue
            if right < len(second):
                step = second[right]
                self._take(step)
                right += 1
                if left < len(first) and first[left][0] == step:
                    left += 1
                if step == following:
                    following = next(shared, None)
        return self.out

    def _take(self, step: str) -> None:
        self.done.add(step)
        self.out.append(merged(self.items, self.first.get(step, ABSENT), self.second[step]))
