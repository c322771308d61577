"""Topology: domains of nodes by the values of a label, the one a group is in already, and the order of its pods."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.scheduling.group_model import Group
from dray.scheduling.model import Node, Pod
from dray.scheduling.reasons import Code
from dray.scheduling.state import State
from dray.scheduling.status import Status

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_LONGEST: Final = 10
_DIGITS: Final = re.compile(r"(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Domain:
    value: str
    nodes: tuple[int, ...]
    """By number."""


def rank_of(pod: Pod) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Pods of an indexed Job by their index, others by name, where w10 comes after w9."""
    index = pod.annotations.get(_INDEX) or pod.labels.get(_INDEX) or ""
    parts = _DIGITS.split(pod.key[1])
    name = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts if part)
    return int(index) if index.isdecimal() and len(index) < _LONGEST else -1, name


def domains_of(group: Group, state: State, taken: Iterable[Node]) -> list[Domain] | Status:
    """Where the group can be, whose pods are on the nodes `taken`: a domain for each value, or all nodes in one."""
    label = group.topology
    if not label:
        return [Domain("", tuple(node.number for node in state))]
    found: dict[str, list[int]] = {}
    for node in state:
        if (value := node.labels.get(label)) is not None:
            found.setdefault(value, []).append(node.number)
    there = {node.labels.get(label) for node in taken}
    if len(there) > 1:
        return Status.of("", Code.GANG_IN_SEVERAL_DOMAINS, group.key.title, label, error=True)
    domains = [Domain(value, tuple(nodes)) for value, nodes in found.items() if not there or value in there]
    return domains or Status.of("", Code.NO_PLACEMENTS, label)
