"""Queues as JSON for the page: numbers for bars, and the same amounts as people write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from dray.answers.queue import ReadQueues, Waits, unread_notes
from dray.answers.views.queue_view import Amounts, QueueView, Running
from dray.api.objects import Object
from dray.scheduling.model.messages import amount_text, resource_text

_MOST_SHOWN: Final = 50
"""Pods and groups of the queue that is open, and queues of which the next one is explained."""


def queue_document(queues: ReadQueues, kind: str, name: str, told: Sequence[str]) -> Object:
    every = [view for top in queues.forest for view in top.all()]
    explained = {id(view) for view in [each for each in every if each.waiting][:_MOST_SHOWN]}
    opened = next((view for view in every if (view.kind, view.name) == (kind, name)), None)
    return {
        "queues": [_row(queues, each, explained) for each in queues.forest],
        "open": _details(queues, opened) if opened is not None else None,
        "notes": [*unread_notes(queues.found), *queues.notes, *told],
    }


def _row(queues: ReadQueues, view: QueueView, explained: set[int]) -> Object:
    following = next(queues.waits([_alone(view)]), None) if id(view) in explained else None
    return {
        "kind": view.kind,
        "name": view.name,
        "resources": [_amounts(each) for each in view.amounts if _matters(each)],
        "share": f"{view.borrowed / 1000:g}" if view.borrowed is not None else "",
        "waiting": view.number_waiting,
        "running": sum(len(each.pods) for below in view.all() for each in below.running),
        "next": _waits(following) if following is not None else None,
        "children": [_row(queues, each, explained) for each in view.children],
    }


def _alone(view: QueueView) -> QueueView:
    """The queue without those below it."""
    return QueueView(view.kind, view.name, view.amounts, waiting=view.waiting)


def _matters(amounts: Amounts) -> bool:
    return bool(amounts.used) or amounts.total is not None or amounts.limit is not None


def _amounts(amounts: Amounts) -> Object:
    room = amounts.room
    quota = amounts.total
    numbers = {
        "used": amounts.used,
        "quota": quota,
        "limit": amounts.limit,
        "share": amounts.share,
        "borrowed": max(0.0, amounts.used - quota) if quota is not None else 0.0,
        "free": room.free if room is not None else None,
        "lent": room.lent if room is not None else 0.0,
        "borrowable": room.borrowable if room is not None else 0.0,
    }
    known = {name: number for name, number in numbers.items() if number is not None}
    return {
        "resource": resource_text(amounts.resource),
        "flavor": amounts.flavor,
        **known,
        "text": {name: amount_text(amounts.resource, number) for name, number in known.items()},
        "borrowers": [_loan(amounts, *each) for each in amounts.borrowers],
        "lenders": [_loan(amounts, *each) for each in amounts.lenders],
    }


def _loan(amounts: Amounts, queue: str, amount: float) -> Object:
    return {"queue": queue, "amount": amount_text(amounts.resource, amount)}


def _details(queues: ReadQueues, view: QueueView) -> Object:
    running = [each for below in view.all() for each in below.running]
    waits = list(islice(queues.waits([view]), _MOST_SHOWN + 1))
    return {
        "reclaims": view.reclaims,
        "running": [_running(each) for each in running[:_MOST_SHOWN]],
        "running_left_off": max(0, len(running) - _MOST_SHOWN),
        "waiting": [_waits(each) for each in waits[:_MOST_SHOWN]],
        "more_waiting": len(waits) > _MOST_SHOWN,
    }


def _waits(waits: Waits) -> Object:
    namespace, name = waits.pods[0].key
    return {"title": waits.title, "why": waits.why, "namespace": namespace, "pod": name, "pods": len(waits.pods)}


def _running(running: Running) -> Object:
    first = running.pods[0]
    title = f"group {running.group.title}" if running.group is not None else f"pod {'/'.join(first.key)}"
    return {
        "title": title,
        "pods": len(running.pods),
        "uses": list(_uses(running)),
        "since": running.since,
        "evicted": running.evicted,
    }


def _uses(running: Running) -> Iterator[str]:
    for resource, amount in sorted(running.uses.items()):
        yield f"{amount_text(resource, amount)} {resource_text(resource)}"
