"""Node selectors: does a node match one, and what the selectors of several devices come to together.

A selector is a list of terms, any of which may match; a term is a list of requirements, all of which must. Labels
are matched by `matchExpressions`, the name by `matchFields`. A term without requirements matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from dray.api.objects import Object, int64

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class NodeSelectorError(ValueError):
    """The node selector is invalid."""


def matches(selector: Object, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node of that name with those labels is selected; raises NodeSelectorError."""
    return any(_term_matches(term, name, labels) for term in selector.get("nodeSelectorTerms") or ())


def selects(selector: Object, name: str, labels: Mapping[str, str]) -> bool:
    """Returns True if the selector matches the node; an invalid selector matches nothing."""
    try:
        return matches(selector, name, labels)
    except NodeSelectorError:
        return False


def check(selector: Object, path: str) -> None:
    """Raises NodeSelectorError, with the path of the field, where a node may come that it cannot be compared with."""
    for number, term in enumerate(selector.get("nodeSelectorTerms") or ()):
        at = f"{path}.nodeSelectorTerms[{number}]"
        for index, each in enumerate(term.get("matchExpressions") or ()):
            with _located(f"{at}.matchExpressions[{index}]"):
                _holds(each, {})
        for index, each in enumerate(term.get("matchFields") or ()):
            with _located(f"{at}.matchFields[{index}]"):
                _field_holds(each, "")


@contextmanager
def _located(path: str) -> Iterator[None]:
    try:
        yield
    except NodeSelectorError as error:
        raise NodeSelectorError(f"{path}: {error}") from None


def _term_matches(term: Object, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(expression, labels) for expression in expressions) and all(
        _field_holds(field, name) for field in fields
    )


def _field_holds(requirement: Object, name: str) -> bool:
    if requirement.get("key") != "metadata.name" or len(requirement.get("values") or ()) != 1:
        raise NodeSelectorError(f"a field requirement needs key metadata.name and one value: {requirement}")
    return _holds(requirement, {"metadata.name": name})


def _holds(requirement: Object, labels: Mapping[str, str]) -> bool:
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    value = labels.get(requirement.get("key", ""))
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt"):
        return _compares(operator, value, values)
    raise NodeSelectorError(f"operator {operator!r} is not one of {', '.join(_OPERATORS)}")


def _compares(operator: str, value: str | None, values: Iterable[str]) -> bool:
    bounds = [int64(each) for each in values]
    if len(bounds) != 1 or (bound := bounds[0]) is None:
        raise NodeSelectorError(f"{operator} needs exactly one whole number")
    number = int64(value)
    if number is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def only(name: str) -> Object:
    """Returns a selector for one node."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}


def merged(selectors: Iterable[Object]) -> Object | None:
    """Returns one selector that requires what all of them require; None if they require nothing."""
    merged_term: Object = {}
    for selector in selectors:
        terms: list[Object] = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            raise NodeSelectorError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for member in ("matchFields", "matchExpressions"):
            for requirement in terms[0].get(member) or ():
                known = merged_term.setdefault(member, [])
                if not any(_same(requirement, other) for other in known):
                    known.append(requirement)
    return {"nodeSelectorTerms": [merged_term]} if merged_term else None


def _same(one: Object, other: Object) -> bool:
    if one.get("key") != other.get("key") or one.get("operator") != other.get("operator"):
        return False
    return set(one.get("values") or ()) == set(other.get("values") or ())
