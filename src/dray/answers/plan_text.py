"""The text of a plan: pods with nodes and devices, evicted pods, the cost, and changes that help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dray.answers.explaining.explanation_trees import device_text
from dray.api.objects import Key, Object
from dray.api.times import text_of
from dray.planning.cost import Cost
from dray.planning.plan import Plan, Verdict
from dray.planning.playing import Evicted, PlacedPod
from dray.planning.starting import Start
from dray.scheduling.model.group import GroupKey


def plan_lines(plan: Plan, notes: Sequence[str] = ()) -> Iterator[str]:
    """Yields the lines that `dray plan` prints."""
    played = plan.played
    yield from _pod_lines(played.pods, plan.starts)
    for deleted in played.deleted:
        yield f"pod {'/'.join(deleted.key)}{f' on node {deleted.node}' if deleted.node else ''}: {deleted.reason}"
    for evicted in played.evicted:
        yield _eviction_text(evicted)
    for pod in played.started:
        yield f"{pod.title} waited and starts on node {pod.node}"
    if any(pod.node for pod in played.pods):
        yield from _cost_lines("cost", plan.cost)
    if any(change.machines for change in plan.changes):
        yield from _cost_lines("added machines", plan.added_cost)
    yield _verdict_text(plan)
    for suggestion in plan.suggestions:
        yield f"  {suggestion.change.text}"
        for evicted in suggestion.evicted:
            yield f"    {_eviction_text(evicted)}"
    for note in (*played.problems, *notes):
        yield f"note: {note}"


def _pod_lines(pods: Sequence[PlacedPod], starts: Mapping[Key, Start]) -> Iterator[str]:
    """Yields the lines of all pods; pods of a group that wait for the same reason are one line."""
    shown: set[tuple[GroupKey, str]] = set()
    for pod in pods:
        if pod.node:
            yield f"{pod.title}: on node {pod.node}"
            yield from _device_lines(pod)
            continue
        if pod.group is None:
            yield f"{pod.title}: waits: {pod.reason}"
        elif (pod.group, pod.reason) not in shown:
            shown.add((pod.group, pod.reason))
            number = sum(other.group == pod.group and not other.node for other in pods)
            yield f"group {pod.group.title} ({number} pods): waits: {pod.reason}"
        else:
            continue
        if pod.queue:
            yield f"  queue {pod.queue}: position {pod.position}"
        yield f"  expected start: {_start_text(starts.get(pod.key, Start()))}"


def _start_text(start: Start) -> str:
    if start.earliest is None:
        return "unknown: no running pod that could make room has a time limit"
    if start.latest is None:
        return f"not before {text_of(start.earliest)}; the latest is unknown"
    if start.latest == start.earliest:
        return f"by {text_of(start.latest)}"
    return f"{text_of(start.earliest)} to {text_of(start.latest)}"


def _device_lines(pod: PlacedPod) -> Iterator[str]:
    """Yields one line for each request, with the names of its devices."""
    requests: dict[tuple[str, str], list[Object]] = {}
    for claim, result in pod.devices:
        requests.setdefault((claim, result["request"]), []).append(result)
    for (claim, request), (first, *others) in requests.items():
        pools = {(result["driver"], result["pool"]) for result in (first, *others)}
        names = [result["device"] if len(pools) == 1 else device_text(result) for result in others]
        yield f"  {claim}, {request}: {', '.join([device_text(first), *names])}"


def _eviction_text(evicted: Evicted) -> str:
    why = f": {evicted.reason}" if evicted.reason else ""
    cause = f"evicted for {evicted.preemptor}{why}" if evicted.preemptor else f"evicted{why}"
    text = f"pod {'/'.join(evicted.key)} on node {evicted.node}: {cause}"
    if evicted.again is None:
        return f"{text}; nobody creates it again"
    if evicted.again.node:
        return f"{text}; then on node {evicted.again.node}"
    return f"{text}; then waits: {evicted.again.reason}"


def _cost_lines(title: str, cost: Cost) -> Iterator[str]:
    if cost.unpriced and not cost.hourly:
        yield f"{title}: unknown; --price {cost.unpriced[0]}=AMOUNT gives the price of an hour"
        return
    without = f", without {', '.join(cost.unpriced)}" if cost.unpriced else ""
    yield f"{title}: {cost.hourly:.2f} an hour{without}"


def _verdict_text(plan: Plan) -> str:
    played = plan.played
    fitting = sum(bool(pod.node) for pod in played.pods)
    moved = [evicted for evicted in played.evicted if not evicted.preemptor and evicted.again is not None]
    settled = sum(bool(evicted.again and evicted.again.node) for evicted in moved)
    parts = [f"{fitting} of {len(played.pods)} pods fit"] if played.pods else []
    parts += [f"{settled} of {len(moved)} evicted pods have a node again"] if moved else []
    text = ", ".join(parts) or "nothing to place or to move"
    if plan.verdict is Verdict.FITS:
        return text
    if plan.verdict is Verdict.FITS_WITH_CHANGE:
        helps = "each of these changes helps" if len(plan.suggestions) > 1 else "this change helps"
        smaller = "" if plan.smallest else "; a larger --seconds may find smaller amounts"
        return f"{text}; {helps}{smaller}:"
    if not plan.tried:
        return text
    rest = "" if plan.exhausted else "; a larger --seconds tries more"
    changes = "1 change was" if plan.tried == 1 else f"{plan.tried} changes were"
    return f"{text}; {changes} tried, and none helps by itself{rest}"
