"""Label selectors: what a requirement means, and selectors as they stand in objects.

A label that is absent is in no set of values, so that it satisfies `NotIn` and `DoesNotExist`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from dray.api.objects import mapping

Labels = Mapping[str, str]
Matcher = Callable[[Labels], bool]


def equal(key: str, value: str) -> Matcher:
    return lambda labels: labels.get(key) == value


def unequal(key: str, value: str) -> Matcher:
    return lambda labels: labels.get(key) != value


def within(key: str, values: Collection[str]) -> Matcher:
    return lambda labels: labels.get(key) in values


def outside(key: str, values: Collection[str]) -> Matcher:
    return lambda labels: labels.get(key) not in values


def present(key: str) -> Matcher:
    return lambda labels: key in labels


def absent(key: str) -> Matcher:
    return lambda labels: key not in labels


def nothing(_: Labels) -> bool:
    return False


def from_object(selector: Mapping[str, Any]) -> Matcher:
    """Returns the matcher of a LabelSelector object; an empty one matches everything."""
    wanted = dict(mapping(selector.get("matchLabels")))
    expressions = [_expression(item) for item in selector.get("matchExpressions") or ()]

    def matches(labels: Labels) -> bool:
        for key, value in wanted.items():
            if labels.get(key) != value:
                return False
        for holds in expressions:
            if not holds(labels):
                return False
        return True

    return matches


def _expression(item: Mapping[str, Any]) -> Matcher:
    """Returns the matcher of one expression; an unknown operator matches nothing."""
    key, operator, values = str(item.get("key")), item.get("operator"), item.get("values") or ()
    match operator:
        case "In":
            return within(key, values)
        case "NotIn":
            return outside(key, values)
        case "Exists":
            return present(key)
        case "DoesNotExist":
            return absent(key)
    return nothing


def text_of(selector: Mapping[str, Any]) -> str:
    """Renders a LabelSelector object for a query parameter; "" for an empty one."""
    terms = [(key, f"{key}={value}") for key, value in mapping(selector.get("matchLabels")).items()]
    terms += [(str(item.get("key")), _term(item)) for item in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(terms))


def _term(item: Mapping[str, Any]) -> str:
    key, operator = str(item.get("key")), item.get("operator")
    match operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
    return f"{key} {'in' if operator == 'In' else 'notin'} ({','.join(sorted(item.get('values') or ()))})"
