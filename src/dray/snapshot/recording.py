"""Records a live cluster for some time: a snapshot of the start, with all pods and claims that existed since then.

The file is a snapshot. A pod that was deleted while it ran is recorded as succeeded at the time of its deletion, so
that a replay knows how long it ran. Pods that ended or were deleted before the recording are not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from dray.api.catalogue import built_in
from dray.api.objects import Object, status_of, uid_of
from dray.api.pods import is_terminal, node_of
from dray.api.times import text_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.informer import Informers
from dray.snapshot.fields import kept
from dray.snapshot.files import Header, Snapshot
from dray.snapshot.taking import take

_KINDS = {"Pod": "v1", "ResourceClaim": "resource.k8s.io/v1"}


class Recorder:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seen: dict[str, dict[str, Object]] = {kind: {} for kind in _KINDS}
        """The last state of every object, by kind and uid."""

    def note(self, kind: str, change: Change) -> None:
        document = change.object
        known = self.seen[kind].get(uid_of(document))
        if change.type == "DELETED" and kind == "Pod":
            document = ended(document, self.clock())
        elif kind == "ResourceClaim" and known is not None and not status_of(document).get("allocation"):
            # A claim loses its allocation when its pod ends, and a replay needs the allocation.
            document = known
        self.seen[kind][uid_of(document)] = document


async def record(
    client: ApiClient, namespace: str, recorder: Recorder, seconds: float | None, stop: asyncio.Event
) -> Snapshot:
    """Records for `seconds`, or until `stop` is set. Raises ClientError."""
    taken, informers = await take(client, recorder.clock(), namespace), Informers(client)
    for kind, version in _KINDS.items():
        # Informers list these kinds again, but a short recording may end before they have.
        recorder.seen[kind] |= {uid_of(obj): obj for obj in taken.objects.get((version, kind), ())}
        informers.of(built_in(version, kind)).add_handler(partial(recorder.note, kind))
    running = asyncio.create_task(informers.run())
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return _with(taken, recorder)


def _with(taken: Snapshot, recorder: Recorder) -> Snapshot:
    objects, kinds = dict(taken.objects), []
    for listed in taken.header.kinds:
        version = _KINDS.get(listed.kind)
        if version == listed.api_version and listed.refusal is None:
            found = [kept(listed.kind, obj) for obj in recorder.seen[listed.kind].values()]
            objects[version, listed.kind] = found
            kinds.append(msgspec.structs.replace(listed, objects=len(found)))
        else:
            kinds.append(listed)
    header = taken.header
    return Snapshot(Header(taken_at=header.taken_at, namespace=header.namespace, kinds=tuple(kinds)), objects)


def ended(pod: Object, now: float) -> Object:
    """Returns the pod as if it succeeded now; a pod that never ran or has ended already is returned unchanged."""
    if is_terminal(pod) or not node_of(pod):
        return pod
    finished = {"terminated": {"exitCode": 0, "finishedAt": text_of(now)}}
    names = [container["name"] for container in pod["spec"].get("containers") or ()]
    statuses = [{"name": name, "state": finished} for name in names]
    status = {**status_of(pod), "phase": "Succeeded", "containerStatuses": statuses}
    status.setdefault("startTime", pod["metadata"].get("creationTimestamp"))
    return {**pod, "status": status}
