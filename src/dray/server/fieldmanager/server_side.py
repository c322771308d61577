"""Server-side apply and the tracking of fields, as the handler of a request calls them.

`apply` gives the object that results from applying a configuration, `track_update` the managed fields of an object
that was created, updated or patched in any other way. Both work on the object as the client's version writes it,
defaulted but before admission changed it: what the server fills in belongs to nobody.
"""

from __future__ import annotations

from typing import Any

from dray.api.objects import Object, mapping
from dray.server.fieldmanager import configurations, field_set, last_applied, managers
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.managers import APPLY, UPDATE, ApplyConflict, Managers, Owned
from dray.server.fieldmanager.tracked_kinds import TrackedKind
from dray.server.fieldmanager.updater import Updater
from dray.server.status import bad_request

_BEFORE_FIRST_APPLY = "before-first-apply"
_MAX_MANAGER = 128
# The metadata as a whole has no owner, only its parts.
_METADATA = field_set.of_paths("metadata")


def manager_name(field_manager: str, user_agent: str) -> str:
    """Returns the field manager of a request: its parameter, or the name of the client program."""
    if field_manager:
        return field_manager
    shown = "".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())
    return shown.encode()[:_MAX_MANAGER].decode(errors="ignore")


def apply(
    live: Object | None,
    applied: Object,
    manager: str,
    *,
    kind: TrackedKind,
    now: str,
    force: bool = False,
    subresource: str = "",
) -> Object:
    """Applies a configuration to the live object (None for a new one); sets the managed fields."""
    _check(applied, kind)
    before = _without_managed(kind.convert(live, kind.api_version) if live is not None else kind.blank())
    known = managers.read(_managed(live)) if live is not None else {}
    updater = Updater(kind, kind.ignored(subresource))
    if not known and live is not None:
        known = _track(updater, kind.blank(), before, {}, _BEFORE_FIRST_APPLY, subresource, now)
    who = managers.manager(manager, APPLY, kind.api_version, subresource)
    try:
        new, after = updater.apply(before, applied, known, who, force=force)
    except ApplyConflict as conflict:
        if manager != last_applied.MANAGER:
            raise
        kind_type = updater.type_in(kind.api_version)
        left = conflict.without(last_applied.takeable(before, kind_type))
        if left is not None:
            raise left from None
        new, after = updater.apply(before, applied, known, who, force=True)
    after = _stripped(after, who)
    if who in after and (before != new or _sets(after) != _sets(known)):
        after[who] = after[who].at(now, after[who].api_version)
    if manager == last_applied.MANAGER:
        new = last_applied.follow(new, applied)
    return _with_managed(new, managers.encode(after))


def _check(applied: Object, kind: TrackedKind) -> None:
    if applied.get("apiVersion") != kind.api_version or applied.get("kind") != kind.kind:
        raise bad_request(
            f"Incorrect version specified in apply patch. Specified patch version: {applied.get('apiVersion')}, "
            f"{applied.get('kind')}, expected: {kind.api_version}, {kind.kind}"
        )
    if mapping(applied.get("metadata")).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    kind_type = kind.field_type(kind.api_version)
    assert kind_type is not None
    configurations.check(kind_type, applied)


def track_update(
    old: Object | None, new: Object, manager: str, *, kind: TrackedKind, now: str, subresource: str = ""
) -> list[Object]:
    """Returns the managed fields of `new`; `old` is None for a new object.

    Only changed fields are taken. An object without managed fields gets none until something is applied to it.
    """
    stored = _managed(old) if old is not None else []
    known = None if subresource else _given(_managed(new), stored)
    if known is None:
        known = managers.read(stored)
    if not known and old is not None:
        return []
    before = kind.blank() if old is None else kind.convert(old, kind.api_version)
    after = kind.convert(new, kind.api_version)
    updater = Updater(kind, kind.ignored(subresource))
    return managers.encode(_track(updater, before, after, known, manager, subresource, now))


def _given(given: list[Any], stored: list[Any]) -> Managers | None:
    """Returns the managed fields that a client set; None if it left them out, which keeps the stored ones."""
    if not given or given == stored:
        return None
    return {} if given == [{}] else managers.decode(given) or None


def _track(
    updater: Updater, old: Object, new: Object, known: Managers, manager: str, subresource: str, now: str
) -> Managers:
    version = updater.version
    who = managers.manager(manager, UPDATE, version, subresource)
    taken, after = updater.taken(old, new, known, who)
    if field_set.is_member(taken.get("f:metadata")):
        taken = field_set.difference(taken, _METADATA)
    if taken:
        own = after.get(who)
        if own is None:
            own = Owned(taken, version)
        elif not field_set.covers(own.fields, taken):
            own = Owned(field_set.union(own.fields, taken), version)
        after[who] = own.at(now, version)
    return managers.capped(after)


def _stripped(known: Managers, who: managers.Manager) -> Managers:
    fields = field_set.difference(known[who].fields, _METADATA) if who in known else None
    rest = {key: entry for key, entry in known.items() if key != who}
    return {**rest, who: known[who].with_fields(fields)} if fields else rest


def _sets(known: Managers) -> dict[managers.Manager, tuple[FieldSet, str]]:
    return {key: (entry.fields, entry.api_version) for key, entry in known.items()}


def _managed(obj: Object) -> list[Any]:
    found = mapping(obj.get("metadata")).get("managedFields")
    return found if isinstance(found, list) else []


def _without_managed(obj: Object) -> Object:
    metadata = {name: value for name, value in mapping(obj.get("metadata")).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _with_managed(obj: Object, entries: list[Object]) -> Object:
    metadata = _without_managed(obj)["metadata"]
    return {**obj, "metadata": {**metadata, "managedFields": entries} if entries else metadata}
