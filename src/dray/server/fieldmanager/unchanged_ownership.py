"""The common update, told apart cheaply: somebody changes values of fields that are theirs already, and nobody else's.

Then no field changes hands, and all that is new in metadata.managedFields is the time of one entry. `refreshed` answers
for that case alone; everything else is for server-side apply to work out.
"""

from __future__ import annotations

from dray.api.objects import Object

_OWNED_METADATA = frozenset({"annotations", "finalizers", "labels", "ownerReferences"})
_NOT_COMPARED = frozenset({"apiVersion", "kind", "metadata"})


def refreshed(
    old: Object, new: Object, *, manager: str, api_version: str, subresource: str, now: str
) -> list[Object] | None:
    """The entries of `new`, or None if it takes more than a new time to tell them."""
    entries = old["metadata"].get("managedFields") or []
    if new["metadata"].get("managedFields") not in (None, entries) or new.get("apiVersion") != api_version:
        return None
    mine, others = None, []
    for entry in entries:
        if (
            entry["operation"] == "Update"
            and entry.get("manager") == manager
            and entry["apiVersion"] == api_version
            and entry.get("subresource", "") == subresource
        ):
            mine = entry
        elif entry["apiVersion"] != api_version or (entry["operation"] == "Update" and entry.get("time", "") >= now):
            return None
        else:
            others.append(entry)
    if mine is None or not _only_values(mine["fieldsV1"], old, new, [entry["fieldsV1"] for entry in others]):
        return None
    return [*others, {**mine, "time": now}]


def _only_values(fields: Object, old: Object, new: Object, others: list[Object]) -> bool:
    if old.keys() != new.keys() or not _same(fields, old, new, others, _NOT_COMPARED):
        return False
    before = {name: value for name, value in old["metadata"].items() if name in _OWNED_METADATA}
    after = {name: value for name, value in new["metadata"].items() if name in _OWNED_METADATA}
    inner = [other["f:metadata"] for other in others if "f:metadata" in other]
    return before == after or _same(fields.get("f:metadata", {}), before, after, inner)


def _same(
    fields: Object, old: Object, new: Object, others: list[Object], skipped: frozenset[str] = frozenset()
) -> bool:
    """Whether all that differs are values of fields in `fields`, and of none in `others`."""
    if old.keys() != new.keys():
        return False
    for name, value in new.items():
        before = old[name]
        if name in skipped or before == value:
            continue
        step = f"f:{name}"
        mine, theirs = fields.get(step), [other[step] for other in others if step in other]
        if mine is None:
            return False
        if isinstance(value, dict) and isinstance(before, dict) and mine:
            if not _same(mine, before, value, theirs):
                return False
        elif mine or theirs:
            # A list with owners of its items, or somebody else who has the same field.
            return False
    return True
