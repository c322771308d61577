"""Tracks the managers of fields: what every write leaves in metadata.managedFields.

An owner is noted for what the client sent, defaulted, before admission adds to it.
"""

from __future__ import annotations

from functools import lru_cache

from dray.api.objects import Object
from dray.server.fieldmanager import server_side
from dray.server.parameters import WriteOptions
from dray.server.resources import Resource

# There are few clients, and each sends the same value in every request.
manager_name = lru_cache(maxsize=256)(server_side.manager_name)


def track_create(resource: Resource, obj: Object, sent: Object, options: WriteOptions, now: str) -> None:
    """Records the owner of the fields of a new object; `sent` is the object before admission changed it."""
    manager = manager_name(options.field_manager, options.user_agent)
    put_entries(obj, server_side.track_update(None, sent, manager, kind=resource.tracked, now=now))


def track_update(
    resource: Resource, old: Object, obj: Object, options: WriteOptions, now: str, subresource: str
) -> None:
    """Records the owner of the fields that an update changes. Call it before admission changes the object."""
    manager = manager_name(options.field_manager, options.user_agent)
    before, after = resource.tracked_form(old), resource.tracked_form(obj)
    put_entries(
        obj, server_side.track_update(before, after, manager, kind=resource.tracked, now=now, subresource=subresource)
    )


class Applied:
    """Keeps the managed fields of an applied object apart until the write is accepted."""

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
    """Returns `obj`, or `old` if nothing but times in the managed fields changed: then nothing is written."""
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
