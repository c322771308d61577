"""Tracks the managers of fields: what every write leaves in metadata.managedFields.

An owner is noted for what the client sent, defaulted, before admission adds to it.
"""

from __future__ import annotations

from functools import lru_cache

from dray.api.objects import Object
from dray.server.fieldmanager import server_side
from dray.server.parameters import WriteOptions
from dray.server.resources import Resource

# Clients are few and say the same in every request.
manager_name = lru_cache(maxsize=256)(server_side.manager_name)


def track_create(resource: Resource, obj: Object, sent: Object, options: WriteOptions, now: str) -> None:
    """`sent` is the object as the client meant it."""
    manager = manager_name(options.field_manager, options.user_agent)
    put_entries(obj, server_side.track_update(None, sent, manager, kind=resource.tracked, now=now))


def track_update(
    resource: Resource, old: Object, obj: Object, options: WriteOptions, now: str, subresource: str
) -> None:
    """Notes the owner of what an update changes; to be called before admission has changed the object."""
    manager = manager_name(options.field_manager, options.user_agent)
    before, after = resource.tracked_form(old), resource.tracked_form(obj)
    put_entries(
        obj, server_side.track_update(before, after, manager, kind=resource.tracked, now=now, subresource=subresource)
    )


class Applied:
    """For an object that comes out of apply, which notes the owners itself: kept apart until the rest is accepted."""

    def __init__(self) -> None:
        self._entries: list[Object] = []

    def put_aside(self, document: Object) -> Object:
        metadata = dict(document["metadata"])
        self._entries = metadata.pop("managedFields", [])
        return {**document, "metadata": metadata}

    def __call__(self, old: Object, obj: Object) -> None:
        put_entries(obj, self._entries)


def put_entries(obj: Object, entries: list[Object]) -> None:
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def settle_times(old: Object, obj: Object) -> Object:
    """The object as before, if nothing but the times of its owners changed: then there is nothing to write."""
    before, after = old["metadata"], obj["metadata"]
    if {**before, "managedFields": None} != {**after, "managedFields": None} or before.keys() != after.keys():
        return obj
    entries = before.get("managedFields")
    if not entries or {**old, "metadata": None} != {**obj, "metadata": None}:
        return obj
    if _timeless(entries) != _timeless(after["managedFields"]):
        return obj
    return {**obj, "metadata": {**after, "managedFields": entries}}


def _timeless(entries: list[Object]) -> list[Object]:
    return [{**entry, "time": None} for entry in entries]
