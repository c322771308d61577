"""`dray explain podgroup`: why a group waits.

The causes are listed in the order size, queue, topology, devices. The first of them is the conclusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dray.allocation.text import Tree, summary
from dray.answers.explaining.explanations import Explanation
from dray.answers.explaining.queue_explainer import QueueAnswer
from dray.answers.explaining.queue_texts import queue_text
from dray.api.objects import Object
from dray.scheduling.explain.explainer import GroupExplanation, GroupSize
from dray.scheduling.model.messages import diagnosis_text, status_text


def group_explanation(kind: str, found: GroupExplanation[QueueAnswer]) -> Explanation:
    key = found.group.key
    made = Explanation(kind, key.namespace, key.name, "", False)
    if not found.waiting:
        made.outcome = "its pods are on nodes" if found.started else "has no pending pods"
        made.good = found.started
    elif not conclusion(found):
        made.outcome, made.good = "fits", True
    else:
        made.outcome, made.conclusion = "waits", conclusion(found)
    made.trees = group_trees(found)
    if made.good and found.waiting:
        made.trees.append(Tree("its scheduler has not tried it since, or does not run"))
    made.data = lambda: {"group": group_row(found)}
    return made


def conclusion(found: GroupExplanation[QueueAnswer]) -> str:
    """Returns the first cause; empty if there is no cause."""
    if found.obstacle is not None:
        return status_text(found.obstacle)
    if found.queue is not None and found.queue.problem is not None:
        return queue_text(found.queue)
    if found.diagnosis is None:
        return ""
    # The trees list the reasons of all nodes for the next pod.
    text, next_pod = diagnosis_text(replace(found.diagnosis, following=None)), found.diagnosis.following
    if found.queue is not None and found.queue.excess is not None:
        text = f"{text.removesuffix('.')}; {queue_text(found.queue)}"
    if next_pod is not None and next_pod.nearest is not None:
        text = f"{text.removesuffix('.')}; the next pod lacks {summary(next_pod.nearest)}"
    return text


def group_trees(found: GroupExplanation[QueueAnswer]) -> list[Tree]:
    return [Tree(f"{name}: {text}") for name, text in _causes(found)]


def group_row(found: GroupExplanation[QueueAnswer]) -> Object:
    """Returns the fields of a group for `-o json`."""
    diagnosis, queue = found.diagnosis, found.queue
    row: Object = {
        "name": found.group.key.name,
        "apiGroup": found.group.key.api,
        "started": found.started,
        "waiting": found.waiting,
        "sizes": [_size_row(size) for size in found.sizes],
        "causes": dict(_causes(found)),
    }
    if queue is not None:
        row["queue"] = {"name": queue.queue, "message": queue_text(queue) if queue.problem else ""}
    if diagnosis is not None:
        row["need"], row["places"] = diagnosis.need, diagnosis.best
        row["domains"], row["bestDomain"] = diagnosis.domains, diagnosis.domain
    return row


def _size_row(size: GroupSize) -> Object:
    return {
        "group": size.group.key.name,
        "minCount": size.least,
        "pods": size.pods,
        "placed": size.placed,
        "succeeded": size.succeeded,
        "ready": size.ready,
    }


def _causes(found: GroupExplanation[QueueAnswer]) -> Iterator[tuple[str, str]]:
    sizes = [_size_text(size, named=len(found.sizes) > 1) for size in found.sizes]
    obstacle = f"; {status_text(found.obstacle)}" if found.obstacle is not None else ""
    yield "size", "; ".join(sizes) + obstacle
    if found.queue is not None:
        yield "queue", _queue_text(found)
    yield from _placement(found)


def _queue_text(found: GroupExplanation[QueueAnswer]) -> str:
    answer = found.queue
    assert answer is not None
    if answer.problem is not None:
        return queue_text(answer)
    enough = f"{answer.queue} has enough left"
    return f"{enough}; {queue_text(answer)}" if answer.excess is not None and found.diagnosis is not None else enough


def _size_text(size: GroupSize, *, named: bool) -> str:
    parts = [f"{size.least} pods start together", f"{size.pods} are there"]
    if size.placed:
        parts.append(f"{size.placed} on nodes")
    if size.succeeded:
        parts.append(f"{size.succeeded} ended well")
    waiting = size.pods - size.placed - size.succeeded
    if waiting and size.ready < waiting:
        parts.append(f"{size.ready} of {waiting} can be tried")
    return (f"{size.group.key.name}: " if named else "") + ", ".join(parts)


def _placement(found: GroupExplanation[QueueAnswer]) -> Iterator[tuple[str, str]]:
    """Yields the required topology, how many pods fit there, and what the next pod lacks."""
    diagnosis, wanted = found.diagnosis, found.group.topology.required
    where = " and ".join(wanted)
    if diagnosis is None:
        if wanted:
            yield "topology", f"one domain of {where}"
        if found.obstacle is None and found.queue is not None and found.queue.problem is not None:
            yield "devices and nodes", "all pods that start together fit"
        return
    if diagnosis.status is not None:
        yield "placement", status_text(diagnosis.status)
        return
    places = f"a place for {diagnosis.best} of {diagnosis.need} pods"
    if diagnosis.domains:
        yield "topology", f"{diagnosis.domains} domains, the best is {diagnosis.domain} with {places}"
    else:
        yield "topology", f"anywhere: {places}"
    if diagnosis.part:
        yield "group", f"{diagnosis.part} does not fit beside the others"
    if diagnosis.following is not None:
        yield "devices and nodes", f"for the next pod: {diagnosis_text(diagnosis.following)}"
