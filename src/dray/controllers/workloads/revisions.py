"""Revisions of a template: one ControllerRevision for each, numbered in the order in which they came to be in force.

A revision's data is the patch that brings its template back, as `kubectl rollout undo` applies it. A template that was
in force before gets the highest number again. The name has a hash of the template; where by chance another revision
has that name, `status.collisionCount` of the owner goes into the hash.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from typing import Final, cast

from dray.api.catalogue import KindVersion
from dray.api.label_selectors import from_object
from dray.api.objects import Object, controller_uid, is_deleting, key_of, labels_of, status_of, uid_of, walk
from dray.client.errors import AlreadyExists, NotFound
from dray.controllers.environment import Environment
from dray.controllers.kinds import CONTROLLER_REVISIONS
from dray.controllers.workloads.adoption import BY_CONTROLLER, Adoption, index_by_controller
from dray.controllers.workloads.own_writes import OwnWrites
from dray.controllers.workloads.pod_control import leaving
from dray.controllers.workloads.pod_template import reference

HASH_LABEL: Final = "controller-revision-hash"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10
_LONGEST_NAME: Final = 223
_LONGEST_LABEL: Final = 63


class Revisions:
    """Creates, numbers and prunes the ControllerRevisions of owners of one kind."""

    def __init__(self, environment: Environment, kind: KindVersion, hash_label: str = HASH_LABEL) -> None:
        self._client = environment.client
        self._time = environment.time
        self._kind = kind
        self._hash_label = hash_label
        self.informer = environment.informers.of(CONTROLLER_REVISIONS, {BY_CONTROLLER: index_by_controller})
        self._written = OwnWrites(self.informer)
        self._adoption = Adoption(self._client, kind, CONTROLLER_REVISIONS, self.informer, self._written)

    async def of(self, owner: Object) -> list[Object]:
        """Returns the owner's revisions, ordered by number."""
        found = await self._adoption.settle(owner, from_object(owner["spec"]["selector"]))
        return sorted((revision for revision in found if not is_deleting(revision)), key=_order)

    def forget(self, uid: str) -> None:
        self._written.forget(uid)

    async def in_force(self, owner: Object, known: list[Object]) -> Object:
        """Returns the revision of the current template, created or renumbered to be the highest; adds it to `known`."""
        same = [revision for revision in known if revision.get("data") == data_of(owner)]
        number = max((int(revision.get("revision") or 0) for revision in known), default=0)
        if not same:
            made = await self._create(owner, number + 1)
            known.append(made)
            return made
        found = same[-1]
        if int(found.get("revision") or 0) < number:
            found = await self._client.update(CONTROLLER_REVISIONS, {**found, "revision": number + 1})
            self._written.put(uid_of(owner), found)
            known[:] = [*(revision for revision in known if uid_of(revision) != uid_of(found)), found]
        return found

    async def _create(self, owner: Object, number: int) -> Object:
        (namespace, name), data = key_of(owner), data_of(owner)
        digest = _hash(data, int(status_of(owner).get("collisionCount") or 0))
        labels = {**labels_of(owner["spec"]["template"]), self._hash_label: digest}
        body: Object = {
            "apiVersion": CONTROLLER_REVISIONS.api_version,
            "kind": CONTROLLER_REVISIONS.kind,
            "metadata": {
                "name": f"{name[:_LONGEST_NAME]}-{digest}",
                "namespace": namespace,
                "labels": labels,
                "annotations": dict(owner["metadata"].get("annotations") or {}),
                "ownerReferences": [reference(owner, self._kind)],
            },
            "data": data,
            "revision": number,
        }
        try:
            made = await self._client.create(CONTROLLER_REVISIONS, body, namespace=namespace)
        except AlreadyExists:
            made = await self._client.get(CONTROLLER_REVISIONS, body["metadata"]["name"], namespace=namespace)
            if made.get("data") != data or controller_uid(made) != uid_of(owner):
                await self._count_collision(owner)
                raise
        self._written.put(uid_of(owner), made)
        return made

    async def _count_collision(self, owner: Object) -> None:
        status = status_of(owner)
        count = int(status.get("collisionCount") or 0) + 1
        await self._client.update_status(self._kind, {**owner, "status": {**status, "collisionCount": count}})

    async def prune(self, owner: Object, known: list[Object], used: set[str]) -> None:
        """Deletes the oldest beyond the limit; those whose uids are in `used` stay and do not count."""
        limit = owner["spec"].get("revisionHistoryLimit")
        unused = [revision for revision in known if uid_of(revision) not in used]
        surplus = len(unused) - (int(limit) if limit is not None else len(unused))
        for revision in unused[: max(0, surplus)]:
            with suppress(NotFound):
                await self._client.delete_object(CONTROLLER_REVISIONS, revision)
            self._written.put(uid_of(owner), leaving(revision, self._time.now()))


def data_of(owner: Object) -> Object:
    """The patch that brings the template back, with members in the order of their names.

    Kubernetes' own clients compare its bytes with those that they make of the owner.
    """
    patch = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
    return cast(Object, json.loads(json.dumps(patch, sort_keys=True)))


def template_of(revision: Object) -> Object:
    template = walk(revision, "data", "spec", "template")
    return {name: value for name, value in template.items() if name != "$patch"}


def hash_of(revision: Object) -> str:
    """Returns the hash from the revision's label; without the label, the end of its name."""
    return labels_of(revision).get(HASH_LABEL) or key_of(revision)[1].rpartition("-")[2][:_LONGEST_LABEL].rstrip(".")


def _hash(data: Object, collisions: int) -> str:
    text = json.dumps([data, collisions], sort_keys=True)
    number = int.from_bytes(sha256(text.encode()).digest()[:8])
    letters = []
    for _ in range(_LENGTH):
        number, index = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[index])
    return "".join(letters)


def _order(revision: Object) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return int(revision.get("revision") or 0), str(metadata.get("creationTimestamp") or ""), metadata["name"]
