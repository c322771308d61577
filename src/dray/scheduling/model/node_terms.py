"""NodeTerms: node selector terms, indexed so that only terms that may match are evaluated for a node.

A term with an `In` expression is found by the values of its label, or by the name of the node. The answers of other
terms depend on the labels that they name, and are remembered for nodes with the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dray.allocation import node_selectors
from dray.api.objects import Object, mappings, strings, text

_MOST_KNOWN: Final = 1024
_MOST_KEYS: Final = 64


class NodeTerms:
    def __init__(self, terms: Iterable[Object]) -> None:
        self.terms: Sequence[Object] = tuple(terms)
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._by_name: dict[str, list[int]] = {}
        self._others: list[int] = []
        self._known: dict[tuple[Any, ...], tuple[int, ...]] = {}
        for number, term in enumerate(self.terms):
            self._arrange(number, term)
        others = [self.terms[number] for number in self._others]
        keys = {text(item.get("key")) for term in others for item in mappings(term.get("matchExpressions"))}
        self._keys = tuple(sorted(keys)) if len(keys) <= _MOST_KEYS else None
        self._by_field = any(term.get("matchFields") for term in others)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def any(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether at least one term matches a node with that name and those labels."""
        return any(term_matches(self.terms[number], name, labels) for number in self._likely(name, labels)) or bool(
            self._others and self._of_others(name, labels)
        )

    def all(self, name: str, labels: Mapping[str, str]) -> list[int]:
        """The indexes of all terms that match a node with that name and those labels."""
        matching = [number for number in self._likely(name, labels) if term_matches(self.terms[number], name, labels)]
        return [*matching, *self._of_others(name, labels)] if self._others else matching

    def _arrange(self, number: int, term: Object) -> None:
        """Adds a term to an index; terms without an `In` expression are kept in a list."""
        for field in mappings(term.get("matchFields")):
            if field.get("operator") == "In" and field.get("key") == "metadata.name":
                for value in strings(field.get("values")):
                    self._by_name.setdefault(value, []).append(number)
                return
        for expression in mappings(term.get("matchExpressions")):
            if expression.get("operator") == "In":
                values = self._by_label.setdefault(text(expression.get("key")), {})
                for value in dict.fromkeys(strings(expression.get("values"))):
                    values.setdefault(value, []).append(number)
                return
        self._others.append(number)

    def _likely(self, name: str, labels: Mapping[str, str]) -> list[int]:
        """The indexed terms whose `In` expression matches, so that the whole term may match."""
        likely = list(self._by_name.get(name, ()))
        for key, values in self._by_label.items():
            value = labels.get(key)
            if value is not None:
                likely += values.get(value, ())
        return likely

    def _of_others(self, name: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        if self._keys is None:
            return self._matching(name, labels)
        asked = (name if self._by_field else "", *map(labels.get, self._keys))
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[asked] = self._matching(name, labels)
        return known

    def _matching(self, name: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        return tuple(number for number in self._others if term_matches(self.terms[number], name, labels))


def term_matches(term: Object, name: str, labels: Mapping[str, str]) -> bool:
    return node_selectors.selects({"nodeSelectorTerms": [term]}, name, labels)
