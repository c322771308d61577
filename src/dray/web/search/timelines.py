"""The life of a claim: created, allocated, reserved, prepared, released, each with its time if an object tells it.

A time is exact where an object has a timestamp for this very step, and `by` where it is only known that the step was
done then: managed fields have the time of a manager's last write, and a container that runs was prepared before. A
step without any of these has no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object, key_of, mapping, mappings, metadata_of, status_of, text, uid_of
from dray.api.pods import claims_used, extended_claim
from dray.api.resource_claims import allocation_of, reserved_for

_MOST_EVENTS: Final = 100
_MOST_TEXT: Final = 500


def state_of(claim: Object) -> str:
    """The last step that the claim has reached."""
    if metadata_of(claim).get("deletionTimestamp"):
        return "deleting"
    if reserved_for(claim):
        return "in use"
    return "allocated" if allocation_of(claim) else "waiting"


def users_of(claim: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods that name the claim."""
    namespace, name = key_of(claim)
    return [pod for pod in pods if key_of(pod)[0] == namespace and name in _claims_of(pod)]


def _claims_of(pod: Object) -> set[str]:
    return {*(name for _, name in claims_used(pod)), extended_claim(pod)}


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    done: bool
    time: str = ""
    by: str = ""
    """A time at which the step was done already."""
    note: str = ""

    def document(self) -> Object:
        made: Object = {"step": self.name, "done": self.done, "time": self.time, "by": self.by, "note": self.note}
        return {name: value for name, value in made.items() if value != ""}


def story(claim: Object, pods: Iterable[Object], events: Iterable[Object] = ()) -> Object:
    """`timeline` has the steps in order, `events` what the newest events say about the claim and its pods, by time."""
    users = users_of(claim, pods)
    steps = [
        Step("created", done=True, time=text(metadata_of(claim).get("creationTimestamp"))),
        _allocated(claim),
        _reserved(claim, users),
        _prepared(claim, users),
        _released(claim, users),
    ]
    uids = {uid_of(each) for each in (claim, *users)} - {""}
    noted = sorted((_event(each) for each in events if _about(each) in uids), key=lambda each: each.time)
    return {
        "timeline": [each.document() for each in steps],
        "events": [each.document() for each in noted[-_MOST_EVENTS:]],
    }


def _allocated(claim: Object) -> Step:
    allocation = mapping(allocation_of(claim))
    if exact := text(allocation.get("allocationTimestamp")):
        return Step("allocated", done=True, time=exact)
    return Step("allocated", done=bool(allocation), by=_written(claim, "f:allocation") if allocation else "")


def _reserved(claim: Object, users: list[Object]) -> Step:
    """A claim does not tell when it was reserved; the pod is bound right after."""
    consumers = reserved_for(claim)
    if not consumers:
        return Step("reserved", done=any(True for pod in users for _ in _started(pod)))
    bound = [text(each.get("lastTransitionTime")) for pod in users for each in _true(pod, "PodScheduled")]
    by = min(filter(None, bound), default="") or _written(claim, "f:reservedFor")
    return Step("reserved", done=True, by=by, note=_names(consumers))


def _prepared(claim: Object, users: list[Object]) -> Step:
    ready = [
        text(condition.get("lastTransitionTime"))
        for device in mappings(status_of(claim).get("devices"))
        for condition in mappings(device.get("conditions"))
        if condition.get("type") == "Ready" and condition.get("status") == "True"
    ]
    if ready:
        return Step("prepared", done=True, time=max(ready))
    started = min((time for pod in users for time in _started(pod)), default="")
    return Step("prepared", done=bool(started), by=started)


def _released(claim: Object, users: list[Object]) -> Step:
    deleted = text(metadata_of(claim).get("deletionTimestamp"))
    note = f"deletion was asked for at {deleted}" if deleted else ""
    ended = [] if reserved_for(claim) else [time for pod in users for time in _ended(pod)]
    return Step("released", done=bool(ended), by=max(ended, default=""), note=note)


def _started(pod: Object) -> Iterator[str]:
    """When containers of the pod were started."""
    for container in mappings(status_of(pod).get("containerStatuses")):
        state = mapping(container.get("state"))
        for member in ("running", "terminated"):
            if time := text(mapping(state.get(member)).get("startedAt")):
                yield time


def _ended(pod: Object) -> Iterator[str]:
    for container in mappings(status_of(pod).get("containerStatuses")):
        if time := text(mapping(mapping(container.get("state")).get("terminated")).get("finishedAt")):
            yield time


def _true(pod: Object, type_: str) -> list[Object]:
    conditions = mappings(status_of(pod).get("conditions"))
    return [each for each in conditions if each.get("type") == type_ and each.get("status") == "True"]


def _written(claim: Object, field: str) -> str:
    """When the manager that owns a field of the status wrote last."""
    times = [
        text(entry.get("time"))
        for entry in mappings(metadata_of(claim).get("managedFields"))
        if field in mapping(mapping(entry.get("fieldsV1")).get("f:status"))
    ]
    return min(filter(None, times), default="")


def _names(consumers: list[Object]) -> str:
    return ", ".join(f"{each.get('resource')} {each.get('name')}" for each in consumers)


def _about(event: Object) -> str:
    """The uid of the object that an event is about."""
    return text(mapping(event.get("involvedObject") or event.get("regarding")).get("uid"))


def _event(event: Object) -> Step:
    times = ("eventTime", "lastTimestamp", "firstTimestamp")
    time = next((text(event.get(name)) for name in times if event.get(name)), "")
    note = text(event.get("message") or event.get("note"))
    return Step(text(event.get("reason"))[:_MOST_TEXT] or "event", done=True, time=time, note=note[:_MOST_TEXT])
