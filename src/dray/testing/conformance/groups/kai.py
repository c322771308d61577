"""Compares the scheduler with the tables of KAI: what becomes of each pod.

A table shows one action of KAI (`allocate`, `reclaim`, `preempt`, `stalegangeviction`) or all of them in rounds
(`rounds`). Pods of one group that are alike are interchangeable: their number with each fate is compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from typing import Final

from dray.api.objects import Object, annotations_of, is_deleting, key_of, labels_of, spec_of
from dray.planning.player import Player
from dray.testing.conformance.corpus import Case
from dray.testing.conformance.groups.comparison import Comparison

RUNS: Final = "runs"
RUNS_LATER: Final = "runs later"
EVICTED: Final = "evicted"
PENDING: Final = "Pending"
_FATES: Final = {
    "Binding": RUNS,
    "Bound": RUNS,
    "Allocated": RUNS,
    "Running": RUNS,
    "Pipelined": RUNS_LATER,
    "Releasing": EVICTED,
    "Failed": PENDING,
}


def play(case: Case) -> tuple[Player, Comparison]:
    """Plays a case of any mode but `consolidation`."""
    table = _Table(case)
    table.run()
    found = Comparison()
    for names in table.alike():
        table.compare(names, found)
    return table.player, found


def group_of(pod: Object) -> str:
    return annotations_of(pod)["pod-group-name"]


class _Table:
    def __init__(self, case: Case) -> None:
        self.mode: str = case["mode"]
        self.expected: Mapping[str, Object] = case["expect"]["pods"]
        self.initial = {key_of(pod)[1]: pod for pod in case["objects"] if pod["kind"] == "Pod"}
        self.linger: Collection[str] = case.get("linger", ())
        self.deleting = [name for name, pod in self.initial.items() if is_deleting(pod)]
        stale = self.mode in ("rounds", "stalegangeviction")
        self.quiet = 2 if case.get("stale_short") else 8 if stale else 3
        self.player = Player(
            case["objects"],
            recreate=self.mode == "rounds",
            evict=self.mode != "allocate",
            linger=self.linger,
            stale_gangs=stale,
        )
        self.first: dict[str, str | None] = {}
        """The nodes of pods, before deleted pods are gone."""
        self.last: dict[str, str | None] = {}

    def run(self) -> None:
        player = self.player
        if self.mode == "allocate":
            player.settle()
            self.first = player.node_of_pods()
            for name in self.deleting:
                player.delete_pod(name)
            player.settle()
        else:
            if self.mode != "rounds":
                for action in player.later(1):
                    player.do(action)
                for name in self.deleting:
                    if name in player.pods():
                        player.delete_pod(name)
            player.settle(quiet=self.quiet)
        self.last = player.node_of_pods()

    def alike(self) -> list[list[str]]:
        """Returns the names of pods with an expectation, grouped so that the pods of a group are interchangeable."""
        found: dict[Hashable, list[str]] = {}
        for name in self.expected:
            pod = self.initial[name]
            spec = spec_of(pod)
            shape = (json.dumps(spec["containers"]), json.dumps(spec.get("affinity")))
            found.setdefault((group_of(pod), _part_of(pod), *shape), []).append(name)
        return list(found.values())

    def compare(self, names: list[str], found: Comparison) -> None:
        pairs = [(self._expected_fate(name), name) for name in names]
        wanted = Counter(fate for fate, _ in pairs)
        got = Counter(self._fate(name, fate) for fate, name in pairs)
        pod = self.initial[names[0]]
        group, part = group_of(pod), _part_of(pod)
        if wanted != got:
            said = self.player.refusals.get(group) or self.player.refusals.get(names[0]) or ""
            title = f"{group}/{part}" if part else group
            text = f"{title}: expected {dict(wanted)}, got {dict(got)}: {said[:160]}"
            later = self.mode in ("reclaim", "preempt") and _in_later_turn(wanted, got)
            found.add(f"(later turn) {text}" if later else text, counts=not later)
            return
        expected: list[str] = [
            self.expected[name].get("node") or "" for fate, name in pairs if fate in (RUNS, RUNS_LATER)
        ]
        nodes = sorted(node for name in names if (node := self.last.get(name)))
        if all(expected) and sorted(expected) != nodes:
            found.add(f"{group}: on {nodes} instead of {sorted(expected)}", counts=False)

    def _expected_fate(self, name: str) -> str:
        status: str = self.expected[name]["status"]
        fate = _FATES.get(status, status)
        if self.mode == "rounds":
            if fate == RUNS_LATER:
                fate = RUNS
            elif fate == EVICTED and name not in self.linger:
                fate = PENDING
        elif fate == RUNS_LATER and self._was_running(name):
            # KAI evicts the pod and places it elsewhere.
            fate = EVICTED
        return fate

    def _fate(self, name: str, expected: str) -> str:
        evicted = name in self.deleting or name in self.player.evicted_names()
        if self.mode == "allocate":
            return self._fate_of_allocation(name, expected)
        if self.mode == "rounds":
            if name in self.linger and evicted:
                return EVICTED
            return RUNS if self.last.get(name) else PENDING
        if evicted:
            return EVICTED
        if not self.last.get(name):
            return PENDING
        return RUNS if self._was_running(name) or expected == RUNS else RUNS_LATER

    def _fate_of_allocation(self, name: str, expected: str) -> str:
        if name in self.deleting:
            return EVICTED
        if self.first.get(name):
            return RUNS
        # KAI looks once; a pod that finds a place after other pods are gone is no difference.
        return RUNS_LATER if self.last.get(name) and expected != PENDING else PENDING

    def _was_running(self, name: str) -> bool:
        return bool(spec_of(self.initial[name]).get("nodeName"))


def _part_of(pod: Object) -> str:
    return labels_of(pod).get("kai.scheduler/subgroup-name", "")


def _in_later_turn(wanted: Counter[str], got: Counter[str]) -> bool:
    """Returns True if the only difference is that dray places pending pods later, without further evictions."""
    return wanted[EVICTED] == got[EVICTED] and wanted[PENDING] > got[PENDING]
