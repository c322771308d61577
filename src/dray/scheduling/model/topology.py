"""Topology: domains of nodes by the values of labels, and the order of pods.

A domain is identified by the values of all labels of its path: the same value below different parents is another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dray.scheduling.model.group import Path
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_LONGEST: Final = 10
_DIGITS: Final = re.compile(r"(\d{1,18})")

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    path: Path
    values: Values
    nodes: tuple[int, ...]
    """By number."""

    @property
    def title(self) -> str:
        return ",".join(f"{label}={value}" for label, value in zip(self.path, self.values, strict=True))


def rank_of(pod: Pod) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Pods of an indexed Job by their index, others by name, where w10 comes after w9."""
    index = index_of(pod)
    parts = _DIGITS.split(pod.key[1])
    name = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts if part)
    return index if index is not None else -1, name


def index_of(pod: Pod) -> int | None:
    """Of a pod of an indexed Job."""
    index = pod.annotations.get(_INDEX) or pod.labels.get(_INDEX) or ""
    return int(index) if index.isdecimal() and len(index) < _LONGEST else None


def values_of(node: Node, path: Path) -> Values | None:
    """What identifies the domain of a node; None where a label is missing."""
    values = tuple(node.labels[label] for label in path if label in node.labels)
    return values if len(values) == len(path) else None


def domains_of(path: Path, nodes: Mapping[int, Node]) -> list[Domain]:
    """A domain for each combination of values; all nodes where the path is empty."""
    if not path:
        return [Domain((), (), tuple(nodes))]
    found: dict[Values, list[int]] = {}
    for number, node in nodes.items():
        if (values := values_of(node, path)) is not None:
            found.setdefault(values, []).append(number)
    return [Domain(path, values, tuple(numbers)) for values, numbers in found.items()]


def taken_values(path: Path, nodes: Iterable[Node]) -> set[Values | None]:
    """The domains that pods on the nodes are in."""
    return {values_of(node, path) for node in nodes}


def inner_values(path: Path, levels: Path, nodes: Mapping[int, Node]) -> dict[int, Values]:
    """By node: the values of the levels inside a domain of the path; empty where a label is missing on one of them."""
    inner = levels[len(path) :] if levels[: len(path)] == path else ()
    found = {number: values for number, node in nodes.items() if (values := values_of(node, inner)) is not None}
    return found if inner and len(found) == len(nodes) else {}
