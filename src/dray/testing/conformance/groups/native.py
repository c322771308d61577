"""Compares the scheduler with the integration tests of Kubernetes: steps that create, delete and check objects."""

from __future__ import annotations

from typing import Any

from dray.api.objects import labels_of
from dray.api.times import text_of
from dray.planning.player import Player
from dray.testing.conformance.corpus import Case
from dray.testing.conformance.groups.comparison import Comparison

Step = dict[str, Any]


def play(case: Case) -> tuple[Player, Comparison]:
    player = Player()
    found = Comparison()
    for number, step in enumerate(case["steps"]):
        if "create" in step:
            _create(step, player)
        elif "delete" in step:
            _delete(step, player)
        elif (text := _difference(step, player)) is not None:
            soft = step["check"] == "scheduled" and step.get("soft")
            found.add(f"step {number}: {text}", counts=not soft)
    return player, found


def _create(step: Step, player: Player) -> None:
    for document in step["create"]:
        if document["kind"] == "Pod":
            metadata = {**document["metadata"], "creationTimestamp": text_of(player.now)}
            document = {**document, "metadata": metadata}
            player.now += 1
        player.put(document)
    player.settle(quiet=2, seconds=10)


def _delete(step: Step, player: Player) -> None:
    for name in step["names"]:
        if step["delete"] == "Pod":
            player.delete_pod(name)
        else:
            player.remove(step["delete"], name)
    player.settle(quiet=2, seconds=10)


def _difference(step: Step, player: Player) -> str | None:
    """Returns how the pods that a step names differ from the expected state; None if they do not."""
    check, names, nodes = step["check"], step.get("names", ()), player.node_of_pods()
    placed = {name: node for name in names if (node := nodes.get(name))}
    if check == "scheduled":
        waiting = [name for name in names if name not in placed]
        said = f"{list(player.refusals.items())[-1:]}, evicted {player.evicted}"
        return f"not scheduled: {waiting}: {said}" if waiting else None
    if check == "waiting":
        return f"should wait: {placed}" if placed else None
    if check == "removed":
        present = [name for name in names if name in nodes]
        return f"should be gone: {present}; evicted {player.evicted}" if present else None
    if check == "number":
        wrong = len(placed) != step["scheduled"]
        return f"{len(placed)} scheduled, expected {step['scheduled']}" if wrong else None
    if check == "nodes":
        elsewhere = {name: nodes.get(name) for name in names if nodes.get(name) not in step["nodes"]}
        return f"on {elsewhere}, expected one of {sorted(step['nodes'])}" if elsewhere else None
    if check == "domain":
        domains = {_label(player, node, step["key"]) for node in placed.values()}
        return f"in domains {domains}" if len(domains) != 1 else None
    # Other checks concern conditions, which the scheduler core does not write.
    return None


def _label(player: Player, node: str, key: str) -> str | None:
    return labels_of(player.stored.get("Node", "", node) or {}).get(key)
