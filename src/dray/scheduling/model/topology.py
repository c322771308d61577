"""Topology: domains of nodes by the values of node labels, and the order of pods in a group.

A domain is identified by the values of all labels of its path. Equal values below different parents are different
domains.
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
    """The numbers of its nodes."""

    @property
    def title(self) -> str:
        return ",".join(f"{label}={value}" for label, value in zip(self.path, self.values, strict=True))


def rank_of(pod: Pod) -> tuple[int, tuple[tuple[int, str], ...]]:
    """The sort key of pods in a group: by the completion index of an indexed Job, then by name (w10 after w9)."""
    index = index_of(pod)
    parts = _DIGITS.split(pod.key[1])
    name = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts if part)
    return index if index is not None else -1, name


def index_of(pod: Pod) -> int | None:
    """The completion index of a pod of an indexed Job; None for other pods."""
    index = pod.annotations.get(_INDEX) or pod.labels.get(_INDEX) or ""
    return int(index) if index.isdecimal() and len(index) < _LONGEST else None


def values_of(node: Node, path: Path) -> Values | None:
    """The values that identify the domain of a node; None if the node lacks one of the labels."""
    values = tuple(node.labels[label] for label in path if label in node.labels)
    return values if len(values) == len(path) else None


def domains_of(path: Path, nodes: Mapping[int, Node]) -> list[Domain]:
    """Returns the domains of a path; one domain with all nodes if the path is empty."""
    if not path:
        return [Domain((), (), tuple(nodes))]
    by_values: dict[Values, list[int]] = {}
    for number, node in nodes.items():
        if (values := values_of(node, path)) is not None:
            by_values.setdefault(values, []).append(number)
    return [Domain(path, values, tuple(numbers)) for values, numbers in by_values.items()]


def taken_values(path: Path, nodes: Iterable[Node]) -> set[Values | None]:
    """The values of the domains that the nodes are in."""
    return {values_of(node, path) for node in nodes}


def inner_values(path: Path, levels: Path, nodes: Mapping[int, Node]) -> dict[int, Values]:
    """The values of the levels below the path, by node number; empty if a node lacks one of the labels."""
    inner = levels[len(path) :] if levels[: len(path)] == path else ()
    by_node = {number: values for number, node in nodes.items() if (values := values_of(node, inner)) is not None}
    return by_node if inner and len(by_node) == len(nodes) else {}
