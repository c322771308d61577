"""Compares the scheduler with Kueue's tables of topology-aware placement: how many pods each domain gets.

Other domains that get the same numbers of pods are a remark.
"""

from __future__ import annotations

from collections import Counter

from dray.api.objects import key_of, labels_of
from dray.planning.player import Player
from dray.testing.conformance.corpus import Case
from dray.testing.conformance.groups.comparison import Comparison
from dray.testing.conformance.groups.kueue import Workload, nodes_of, refusal_of


def play(case: Case) -> tuple[Player, Comparison]:
    player = Player(case["objects"], evict=False)
    player.settle()
    found = Comparison()
    for workload in case["pending"]:
        _compare(workload, case, player, found)
    return player, found


def _compare(workload: Workload, case: Case, player: Player, found: Comparison) -> None:
    name, expect = workload["workload"], case["expect"]
    nodes = nodes_of(workload, player)
    want = expect["domains"].get(name)
    if want is None:
        if nodes:
            found.add(f"{name}: expected no assignment ({expect.get('reason')}), is on {sorted(nodes)}")
        return
    if len(nodes) < len(workload["pods"]):
        placed = f"{len(nodes)} of {len(workload['pods'])} placed"
        found.add(f"{name}: expected {want}, {placed}: {refusal_of(workload, player)}")
        return
    levels = case["levels"][-len(want[0]["values"]) :]
    labels = {key_of(node)[1]: labels_of(node) for node in player.stored.of_kind("Node")}
    got = Counter(tuple(labels[node].get(level, "") for level in levels) for node in nodes)
    wanted = {tuple(domain["values"]): domain["count"] for domain in want}
    if got != wanted:
        same_sizes = sorted(got.values()) == sorted(wanted.values())
        found.add(f"{name}: {dict(got)}, expected {wanted}", counts=not same_sizes)
