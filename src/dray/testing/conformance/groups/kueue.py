"""Compares the scheduler with Kueue's tables of admission and preemption: admitted and evicted workloads.

A workload is a group of pods; the case lists the pods of each. Kueue's tables show one cycle, in which one workload of
each queue has its turn; dray runs until nothing happens any more. What happens in later turns is a remark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dray.planning.player import Player
from dray.testing.conformance.corpus import Case
from dray.testing.conformance.groups.comparison import Comparison

Workload = dict[str, Any]


def play_preemption(case: Case) -> tuple[Player, Comparison]:
    """Plays a case with one incoming workload: exactly the expected workloads are evicted, and it is placed."""
    player = Player(case["objects"])
    player.settle()
    found = Comparison()
    admitted = _Admitted(case["admitted"])
    got, want = admitted.evicted(player), case["expect"]["evicted"]
    if sorted(map(admitted.shape, got)) != sorted(map(admitted.shape, want)):
        found.add(f"evicted {got}, expected {want}: {[text[:160] for text in list(player.refusals.values())[-1:]]}")
    elif got != want:
        found.add(f"evicted {got}, expected {want}, which are alike", counts=False)
    incoming = case["incoming"]
    if want and not found.differences and len(nodes_of(incoming, player)) != len(incoming["pods"]):
        found.add(f"{incoming['workload']} is not placed afterwards: {list(player.refusals.values())[-1:]}")
    return player, found


def play_cycle(case: Case) -> tuple[Player, Comparison]:
    """Plays a case with a cycle of admission.

    Workloads that are admitted, evicted or inadmissible in that cycle must be so here. No other workload may be
    evicted, unless other queues had their turn.
    """
    player = Player(case["objects"])
    player.settle()
    found = Comparison()
    for workload in case["pending"]:
        _compare_admission(workload, case["expect"], player, found)
    _compare_evictions(case, player, found)
    return player, found


def _compare_admission(workload: Workload, expect: dict[str, Any], player: Player, found: Comparison) -> None:
    name = workload["workload"]
    nodes = nodes_of(workload, player)
    if 0 < len(nodes) < len(workload["pods"]):
        found.add(f"{name}: {len(nodes)} of {len(workload['pods'])} pods")
    inadmissible = {workload for names in expect["inadmissible"].values() for workload in names}
    if name in expect["admitted"]:
        admission = expect["admitted"][name]
        flavors = admission["flavors"]
        if not nodes:
            found.add(f"{name}: expected to be admitted to {admission}, waits: {refusal_of(workload, player)}")
        elif len(flavors) == 1 and not all(flavors[0] in node for node in nodes):
            found.add(f"{name}: flavor {flavors}, is on {sorted(set(nodes))}")
    elif name in inadmissible and nodes:
        found.add(f"{name}: expected inadmissible, is on {sorted(set(nodes))}")


def _compare_evictions(case: Case, player: Player, found: Comparison) -> None:
    admitted, expect = _Admitted(case["admitted"]), case["expect"]
    got, want = admitted.evicted(player), expect["evicted"]
    shapes = {admitted.shape(name) for name in want if name in admitted.workloads}
    if not shapes <= set(map(admitted.shape, got)):
        found.add(f"evicted {got}, expected {want}")
    elif len(got) > len(want):
        pending = case["pending"]
        later_turns = len(pending) > len({workload["cq"] for workload in pending}) or any(expect["left"].values())
        found.add(f"evicted {got}, in the first cycle of Kueue {want}", counts=not later_turns)


class _Admitted:
    """The workloads that run at the beginning of a case."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self.workloads = {workload["workload"]: workload for workload in workloads}
        self._by_pod = {pod: name for name, workload in self.workloads.items() for pod in pods_of(workload)}

    def evicted(self, player: Player) -> list[str]:
        pods = {"/".join(key) for key in player.evicted}
        return sorted({self._by_pod[pod] for pod in pods if pod in self._by_pod})

    def shape(self, name: str) -> str:
        """Returns the shape of a workload; workloads of the same shape are interchangeable."""
        workload = self.workloads[name]
        return json.dumps([workload[key] for key in ("cq", "priority", "at", "requests")], sort_keys=True)


def pods_of(workload: Workload) -> list[str]:
    """Returns the pods of a workload as `namespace/name`."""
    namespace = workload["workload"].split("/")[0]
    return [f"{namespace}/{name}" for name in workload["pods"]]


def nodes_of(workload: Workload, player: Player) -> list[str]:
    """Returns the nodes of the placed pods of a workload."""
    placed = player.placed()
    return [placed[pod] for pod in pods_of(workload) if pod in placed]


def refusal_of(workload: Workload, player: Player) -> str:
    names = (workload["workload"].split("/")[1].lower().replace("_", "-"), *workload["pods"][:1])
    return next((player.refusals[name][:200] for name in names if name in player.refusals), "")
