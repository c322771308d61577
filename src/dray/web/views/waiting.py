"""Waiting: every pod and group without a node or not started yet, with a reason in one line; on request the whole
explanation, what would help, and when it may start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dray.answers.explaining.pod_progress import has_started, waits_for
from dray.api.objects import (
    Object,
    condition_of,
    is_deleting,
    key_of,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    spec_of,
)
from dray.api.pods import is_terminal, node_of
from dray.scheduling.groups.front_ends import CONTRADICTION, group_of
from dray.scheduling.model.group import GroupKey
from dray.scheduling.quota.kai.queue import QUEUE_LABEL as KAI_LABEL
from dray.scheduling.quota.kueue.kinds import QUEUE_LABEL as KUEUE_LABEL
from dray.web.view import BadCall, Call, Question, View
from dray.web.wants import wants_of

_MOST_ROWS: Final = 2000
_JOBS: Final = "batch"
_HELP_SECONDS: Final = 10.0
_MOST_PODS: Final = 500
"""Of a group that is planned."""


def derive(question: Question) -> Object:
    pods = [pod for pod in question.objects("pods") if not is_terminal(pod)]
    units = _units(pods)
    order = sorted(units, key=lambda each: (_since(units[each]), each))
    sizes = _sizes(pods, units)
    # Whether there are other pods is not known.
    partial = {} if question.sight.sees_all("pods") else {"partial": True}
    return {
        **partial,
        "waiting": {name: _row(question, units[name], sizes.get(name, 1)) for name in order[:_MOST_ROWS]},
        "left_off": max(0, len(units) - _MOST_ROWS),
        "running": sum(has_started(pod) for pod in pods),
    }


def _units(pods: Iterable[Object]) -> dict[str, list[Object]]:
    """The pods that wait, by the name of what waits: a pod or its group."""
    found: dict[str, list[Object]] = {}
    for pod in pods:
        if not has_started(pod) and not is_deleting(pod):
            found.setdefault(_name(pod), []).append(pod)
    return found


def _name(pod: Object) -> str:
    group = _group(pod)
    if group is None:
        return "/".join(("pod", *key_of(pod)))
    return "/".join(("group", group.api, group.namespace, group.name))


def _group(pod: Object) -> GroupKey | None:
    group = group_of(pod)
    return group if group is not None and group.api != CONTRADICTION else None


def _sizes(pods: Iterable[Object], units: Mapping[str, list[Object]]) -> dict[str, int]:
    """How many pods each group has that waits."""
    found: dict[str, int] = {}
    if any(name.startswith("group/") for name in units):
        for pod in pods:
            if _group(pod) is not None:
                found[_name(pod)] = found.get(_name(pod), 0) + 1
    return found


def _since(unit: list[Object]) -> str:
    return min(str(metadata_of(pod).get("creationTimestamp") or "") for pod in unit)


def _row(question: Question, unit: list[Object], size: int) -> Object:
    first = min(unit, key=lambda pod: (bool(node_of(pod)), key_of(pod)))
    group = _group(first)
    namespace, name = key_of(first) if group is None else (group.namespace, group.name)
    labels = labels_of(first)
    row = {
        "kind": "pod" if group is None else "job" if group.api == _JOBS else "group",
        "namespace": namespace,
        "name": name,
        "state": _state(first),
        "reason": _reason(first),
        "since": _since(unit),
        "queue": labels.get(KUEUE_LABEL) or labels.get(KAI_LABEL) or "",
        "wants": list(wants_of(first, question)),
        "waiting": len(unit),
        "pods": max(size, len(unit)),
    }
    return {member: value for member, value in row.items() if value not in ("", [])}


def _state(pod: Object) -> str:
    if node_of(pod):
        return "starting"
    if spec_of(pod).get("schedulingGates"):
        return "gated"
    return "waiting" if condition_of(pod, "PodScheduled", "False") else "new"


def _reason(pod: Object) -> str:
    if gates := mappings(spec_of(pod).get("schedulingGates")):
        return f"held by scheduling gates: {', '.join(str(each.get('name')) for each in gates)}"
    if _state(pod) == "new":
        return "its scheduler has not tried it yet"
    return waits_for(pod).removeprefix("waiting: ")


def _chosen(call: Call) -> list[Object]:
    unit = _units(pod for pod in call.question.objects("pods") if not is_terminal(pod)).get(call.text("name"))
    if unit is None:
        raise BadCall("it does not wait any more, or is gone")
    return unit


async def explain(call: Call) -> Any:
    """The reasons of each node, as `dray explain` has them; `name` is that of a row."""
    first, *_ = _chosen(call)
    group = _group(first)
    if group is None:
        namespace, target = key_of(first)[0], f"pod/{key_of(first)[1]}"
    else:
        kind = "job" if group.api == _JOBS else f"podgroup.{group.api}"
        namespace, target = group.namespace, f"{kind}/{group.name}"
    return await call.desk.ask(call.identity, "explain", {"target": target, "namespace": namespace})


async def help_with(call: Call) -> Any:
    """What would help, and when it may start, as `dray plan` has it; `name` is that of a row."""
    unit = _chosen(call)
    pods = [key_of(pod) for pod in unit if not node_of(pod)][:_MOST_PODS]
    if not pods:
        raise BadCall("it has a node and starts there")
    plan = await call.desk.ask(call.identity, "help", {"pods": pods, "seconds": _HELP_SECONDS})
    return {
        "verdict": plan["verdict"],
        "pods": list(_starts(plan["pods"])),
        "suggestions": [
            {"text": each["description"], "evicts": [f"{one['namespace']}/{one['name']}" for one in each["evictions"]]}
            for each in plan["suggestions"]
        ],
        "tried": plan["search"]["tried"],
        "exhausted": plan["search"]["exhausted"],
        "notes": plan["notes"],
    }


def _starts(pods: Iterable[Object]) -> Iterator[Object]:
    for pod in pods:
        row = {"name": pod["name"], "node": pod.get("node", ""), **mapping(pod.get("start"))}
        queue = mapping(pod.get("queue"))
        yield {**row, **({"queue": queue["name"], "position": queue["position"]} if queue else {})}


VIEW: Final = View(
    "waiting",
    ("pods", "claims", "templates"),
    derive,
    calls={"explain": explain, "help": help_with},
    interval=0.5,
)
