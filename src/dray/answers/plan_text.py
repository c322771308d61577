"""A plan for people: each pod with its node and devices, who is evicted, the cost, and changes that help."""

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
    played = plan.played
    yield from _pods(played.pods, plan.starts)
    for evicted in played.evicted:
        yield _evicted(evicted)
    for pod in played.started:
        yield f"{pod.title} waited and starts on node {pod.node}"
    if any(pod.node for pod in played.pods):
        yield from _cost("cost", plan.cost)
    if any(change.machines for change in plan.changes):
        yield from _cost("added machines", plan.added_cost)
    yield _verdict(plan)
    for suggestion in plan.suggestions:
        yield f"  {suggestion.change.text}"
        for evicted in suggestion.evicted:
            yield f"    {_evicted(evicted)}"
    for note in (*played.problems, *notes):
        yield f"note: {note}"


def _pods(pods: Sequence[PlacedPod], starts: Mapping[Key, Start]) -> Iterator[str]:
    """Yields pods that wait for one reason together: those of a gang have the same."""
    told: set[tuple[GroupKey, str]] = set()
    for pod in pods:
        if pod.node:
            yield f"{pod.title}: on node {pod.node}"
            yield from _devices(pod)
            continue
        if pod.group is None:
            yield f"{pod.title}: waits: {pod.reason}"
        elif (pod.group, pod.reason) not in told:
            told.add((pod.group, pod.reason))
            number = sum(each.group == pod.group and not each.node for each in pods)
            yield f"group {pod.group.title} ({number} pods): waits: {pod.reason}"
        else:
            continue
        if pod.queue:
            yield f"  queue {pod.queue}: position {pod.position}"
        yield f"  expected start: {_start(starts.get(pod.key, Start()))}"


def _start(start: Start) -> str:
    if start.earliest is None:
        return "unknown: no running pod that could make room has a time limit"
    if start.latest is None:
        return f"not before {text_of(start.earliest)}; the latest is unknown"
    if start.latest == start.earliest:
        return f"by {text_of(start.latest)}"
    return f"{text_of(start.earliest)} to {text_of(start.latest)}"


def _devices(pod: PlacedPod) -> Iterator[str]:
    """Yields one line for each request, with the names of its devices."""
    requests: dict[tuple[str, str], list[Object]] = {}
    for claim, result in pod.devices:
        requests.setdefault((claim, result["request"]), []).append(result)
    for (claim, request), (first, *others) in requests.items():
        pools = {(each["driver"], each["pool"]) for each in (first, *others)}
        names = [each["device"] if len(pools) == 1 else device_text(each) for each in others]
        yield f"  {claim}, {request}: {', '.join([device_text(first), *names])}"


def _evicted(evicted: Evicted) -> str:
    why = f": {evicted.reason}" if evicted.reason else ""
    cause = f"evicted for {evicted.preemptor}{why}" if evicted.preemptor else f"evicted{why}"
    text = f"pod {'/'.join(evicted.key)} on node {evicted.node}: {cause}"
    if evicted.again is None:
        return f"{text}; nobody creates it again"
    if evicted.again.node:
        return f"{text}; then on node {evicted.again.node}"
    return f"{text}; then waits: {evicted.again.reason}"


def _cost(title: str, cost: Cost) -> Iterator[str]:
    if cost.unpriced and not cost.hourly:
        yield f"{title}: unknown; --price {cost.unpriced[0]}=AMOUNT gives the price of an hour"
        return
    without = f", without {', '.join(cost.unpriced)}" if cost.unpriced else ""
    yield f"{title}: {cost.hourly:.2f} an hour{without}"


def _verdict(plan: Plan) -> str:
    played = plan.played
    fitting = sum(bool(pod.node) for pod in played.pods)
    moved = [each for each in played.evicted if not each.preemptor and each.again is not None]
    settled = sum(bool(each.again and each.again.node) for each in moved)
    parts = [f"{fitting} of {len(played.pods)} pods fit"] if played.pods else []
    parts += [f"{settled} of {len(moved)} evicted pods have a node again"] if moved else []
    text = ", ".join(parts) or "nothing to place or to move"
    if plan.verdict is Verdict.FITS:
        return text
    if plan.verdict is Verdict.FITS_WITH_CHANGE:
        return f"{text}; each of these changes helps:" if len(plan.suggestions) > 1 else f"{text}; this change helps:"
    if not plan.tried:
        return text
    rest = "" if plan.exhausted else "; there are more, which --seconds leaves no time for"
    return f"{text}; no single change of {plan.tried} that were tried helps{rest}"
