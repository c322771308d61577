"""The questions that the page asks about a cluster, and what `dray.answers` says, as JSON for its views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from dray.allocation.text import Tree
from dray.answers.cluster import Cluster, Told
from dray.answers.errors import InvalidInput
from dray.answers.explain import explain
from dray.answers.lint import lint_reading
from dray.answers.plan import Question as Asked
from dray.answers.plan import cluster_base, plan_reading
from dray.answers.queue import read_queues
from dray.answers.waiting import plan_waiting
from dray.api.gates import DEFAULT_GATES
from dray.api.objects import Object
from dray.client.errors import ApiError
from dray.snapshot.files import StoredSnapshot
from dray.web.answerer import too_little
from dray.web.queue_rows import queue_document
from dray.web.submitting import read

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


def _check(snapshot: StoredSnapshot, arguments: Arguments) -> Object:
    """What is wrong with a manifest, and where its pods would go: `manifest` is its text. `unplanned` says why nobody
    knows where they would go."""
    reading = read(arguments["manifest"])
    report = lint_reading(reading, gates=DEFAULT_GATES, ignore=())
    found: Object = {"findings": report.document, "summary": report.summary, "objects": len(reading.manifests)}
    if reading.problems or not reading.manifests:
        return found
    try:
        base = replace(Cluster.from_stored(snapshot).ask(cluster_base), namespace=arguments["namespace"])
        planned = plan_reading(reading, base, Asked(seconds=arguments["seconds"]))
    except ApiError as error:
        if not error.is_forbidden:
            raise
        # What is wrong with a manifest can be said without the cluster.
        return {**found, "unplanned": too_little(error)}
    except InvalidInput as error:
        return {**found, "problems": [each.removeprefix("error: ") for each in error.problems]}
    return {**found, "plan": planned.document}


def _queues(snapshot: StoredSnapshot, arguments: Arguments) -> Object:
    """All queues, and of the queue `name` what runs and what waits; without a name, of none."""
    told = Told()
    queues = Cluster.from_stored(snapshot).ask(lambda source: read_queues(source, told.tell))
    return queue_document(queues, arguments["kind"], arguments["name"], told.lines)


QUESTIONS: Final[Mapping[str, Callable[[StoredSnapshot, Arguments], Any]]] = {
    "explain": _explain,
    "help": _help,
    "check": _check,
    "queues": _queues,
}
