"""The questions that the page asks about a cluster, and what `dray.answers` says, as JSON for its views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dray.allocation.text import Tree
from dray.answers.cluster import Cluster
from dray.answers.explain import explain
from dray.answers.plan import cluster_base
from dray.answers.waiting import plan_waiting
from dray.api.objects import Object
from dray.snapshot.files import StoredSnapshot

Arguments = Mapping[str, Any]
_MOST_BRANCHES: Final = 60
_DEEPEST: Final = 12


def _explain(snapshot: StoredSnapshot, arguments: Arguments) -> Object:
    """Why a pod or group waits: `target` as `dray explain` takes it, and `namespace`."""
    made = explain(arguments["target"], Cluster.from_stored(snapshot), namespace=arguments["namespace"])
    return {
        "fits": made.good,
        "outcome": made.outcome,
        "conclusion": made.conclusion,
        "remedy": made.remedy,
        "trees": [_tree(each, _DEEPEST) for each in made.trees[:_MOST_BRANCHES]],
        "notes": list(made.notes),
    }


def _tree(tree: Tree, deep: int) -> Object:
    shown = tree.branches[:_MOST_BRANCHES] if deep else []
    return {"label": tree.label, "branches": [_tree(each, deep - 1) for each in shown]}


def _help(snapshot: StoredSnapshot, arguments: Arguments) -> Object:
    """What would help pods that wait, and when they may start: `pods` are pairs of namespace and name."""
    base = Cluster.from_stored(snapshot).ask(cluster_base)
    keys = {(str(namespace), str(name)) for namespace, name in arguments["pods"]}
    return plan_waiting(base, keys, seconds=arguments["seconds"]).document


QUESTIONS: Final[Mapping[str, Callable[[StoredSnapshot, Arguments], Any]]] = {"explain": _explain, "help": _help}
