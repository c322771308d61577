"""Tracks the managers of fields: what every write leaves in metadata.managedFields.

An owner is noted for what the client sent, defaulted, before admission adds to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from dray.api.objects import Object
from dray.server.fieldmanager import server_side, unchanged_ownership
from dray.server.options import WriteOptions
from dray.server.resources import Resource

Entries = TypeVar("Entries", list[Object], list[Object] | None)

# Clients are few and say the same in every request.
manager_name = lru_cache(maxsize=256)(server_side.manager_name)


def track_create(resource: Resource, obj: Object, sent: Object, options: WriteOptions, now: str) -> None:
    """`sent` is the object as the client meant it."""
    entries = server_side.track_update(
        None,
        sent,
        manager_name(options.field_manager, options.user_agent),
        kind=resource.tracked,
        now=now,
    )
    _set(obj, entries)


class Tracker:
    """Notes the owner of what an update changes."""

    def __init__(self, resource: Resource, options: WriteOptions, now: str, subresource: str) -> None:
        self._resource = resource
        self._manager = manager_name(options.field_manager, options.user_agent)
        self._now = now
        self._subresource = subresource

    def __call__(self, old: Object, obj: Object) -> None:
        """To be called before admission has changed the object."""
        before, after = self._resource.tracked_form(old), self._resource.tracked_form(obj)
        entries = unchanged_ownership.refreshed(
            before,
            after,
            manager=self._manager,
            api_version=self._resource.api_version,
            subresource=self._subresource,
            now=self._now,
        )
        if entries is None:
            entries = self._track(server_side.track_newcomer, before, after)
        if entries is None:
            entries = self._track(server_side.track_update, *_differing(before, after))
        _set(obj, entries)

    def _track(self, track: Callable[..., Entries], before: Object, after: Object) -> Entries:
        return track(
            before,
            after,
            self._manager,
            kind=self._resource.tracked,
            now=self._now,
            subresource=self._subresource,
        )


_IDENTITY = ("apiVersion", "kind")


def _differing(old: Object, new: Object) -> tuple[Object, Object]:
    """Both objects without the members that are the same in both: those change hands in no case.

    Comparing two documents as a whole is cheap; walking them by their types is not.
    """
    before, after = old["metadata"], new["metadata"]
    same = {name for name, value in after.items() if name != "managedFields" and before.get(name) == value}
    equal = {name for name, value in new.items() if name not in _IDENTITY and old.get(name) == value}
    return _without(old, equal, same), _without(new, equal, same)


def _without(obj: Object, members: set[str], metadata: set[str]) -> Object:
    kept = {name: value for name, value in obj.items() if name not in members}
    return {**kept, "metadata": {name: value for name, value in obj["metadata"].items() if name not in metadata}}


class Applied:
    """For an object that comes out of apply, which notes the owners itself: kept apart until the rest is accepted."""

    def __init__(self) -> None:
        self._entries: list[Object] = []

    def put_aside(self, document: Object) -> Object:
        metadata = dict(document["metadata"])
        self._entries = metadata.pop("managedFields", [])
        return {**document, "metadata": metadata}

    def __call__(self, old: Object, obj: Object) -> None:
        _set(obj, self._entries)


def _set(obj: Object, entries: list[Object]) -> None:
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def settle_times(old: Object, obj: Object) -> Object:
    """The object as before, if nothing but the times of its owners changed."""
    return server_side.keep_times(old, obj) if _unowned(old) == _unowned(obj) else obj


def _unowned(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}
