"""Compares the plans of `dray defrag` with the consolidation tables of KAI.

KAI moves pods by itself, dray only plans it. Compared is which groups are helped; the number of moves is a remark.
"""

from __future__ import annotations

from dray.api.objects import key_of, spec_of
from dray.planning.player import Player
from dray.scheduling.explain.consolidation import Consolidation, Consolidator
from dray.testing.conformance.corpus import Case
from dray.testing.conformance.groups.comparison import Comparison
from dray.testing.conformance.groups.kai import group_of


def play(case: Case) -> tuple[Player, Comparison]:
    objects = case["objects"]
    player = Player(objects, linger=case.get("linger", ()))
    groups = {key_of(pod)[1]: group_of(pod) for pod in objects if pod["kind"] == "Pod"}
    plans = _plans(player, groups)
    found = Comparison()
    if player.evicted:
        found.add(f"evicted by preemption or reclaim: {player.evicted}", counts=False)
    _compare(case, player, plans, groups, found)
    return player, found


def _plans(player: Player, groups: dict[str, str]) -> dict[str, Consolidation]:
    consolidator = Consolidator(player.scheduler, player.now)
    found = {}
    for waiting in consolidator.waiting():
        plan = consolidator.find(waiting)
        found[groups.get(waiting.queued[0].pod.key[1], waiting.group.key.name)] = plan
    return found


def _compare(
    case: Case, player: Player, plans: dict[str, Consolidation], groups: dict[str, str], found: Comparison
) -> None:
    running = {key_of(pod)[1] for pod in case["objects"] if pod["kind"] == "Pod" and spec_of(pod).get("nodeName")}
    by_status: dict[str, list[str]] = {}
    for name, expected in case["expect"]["pods"].items():
        by_status.setdefault(expected["status"], []).append(name)
    pipelined = by_status.get("Pipelined", [])
    helped = {groups[name] for name in pipelined if name not in running}
    moved = [name for name in pipelined if name in running]
    placed = {groups[name] for name, node in player.node_of_pods().items() if node}
    for group in sorted(helped):
        plan = plans.get(group)
        if plan is None and group in placed:
            continue
        if plan is None or plan.problem:
            said = plan.problem if plan else "not asked"
            found.add(f"{group}: KAI moves {moved} for it, dray defrag: {said}")
        elif len(plan.moves) != len(moved) and len(helped) == 1:
            found.add(f"{group}: {len(plan.moves)} moves, KAI {len(moved)}", counts=False)
    if not helped:
        for group in sorted({groups[name] for name in by_status.get("Pending", ())} - placed):
            plan = plans.get(group)
            if plan is not None and not plan.problem:
                names = [move.pod.key[1] for move in plan.moves]
                found.add(f"{group}: dray defrag would move {names}, KAI does nothing", counts=False)
    for name in by_status.get("Releasing", ()):
        if name not in player.evicted_names():
            found.add(f"{name}: KAI evicts it for good", counts=False)
