"""Names of custom kinds: those that another definition of the group has already are not accepted.

A definition whose first names are not accepted is not served until the other one is gone; one that is served and asks
for a name that is taken goes on with the names it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api.objects import Object, is_true, mapping

ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"


class Taken(NamedTuple):
    """Names taken by other definitions of a group: resources and kinds."""

    resources: frozenset[str]
    kinds: frozenset[str]


NOTHING = Taken(frozenset(), frozenset())


def taken(others: Iterable[Object]) -> Taken:
    accepted = [mapping(mapping(definition.get("status")).get("acceptedNames")) for definition in others]
    resources = {names.get(member) or "" for names in accepted for member in ("plural", "singular")}
    resources |= {name for each in accepted for name in each.get("shortNames") or ()}
    kinds = {names.get(member) or "" for names in accepted for member in ("kind", "listKind")}
    return Taken(frozenset(resources - {""}), frozenset(kinds - {""}))


def accept(requested: Object, accepted: Object, others: Taken) -> tuple[Object, str, str]:
    """Returns the accepted names of a definition; with reason and message if some are not accepted."""
    names, reason, message = dict(accepted), "", ""
    for member, conflict, used in (
        ("plural", "PluralConflict", others.resources),
        ("singular", "SingularConflict", others.resources),
        ("shortNames", "ShortNamesConflict", others.resources),
        ("kind", "KindConflict", others.kinds),
        ("listKind", "ListKindConflict", others.kinds),
    ):
        wanted, present = requested.get(member), accepted.get(member)
        new = [wanted] if isinstance(wanted, str) else [name for name in wanted or () if name not in (present or ())]
        in_use = [name for name in new if name in used and name != present]
        if in_use:
            reason, message = conflict, ", ".join(f'"{name}" is already in use' for name in in_use)
        elif wanted:
            names[member] = wanted
        else:
            names.pop(member, None)
    names.pop("categories", None)
    if requested.get("categories"):
        names["categories"] = requested["categories"]
    return names, reason, message


def is_established(definition: Object) -> bool:
    return is_true(definition, ESTABLISHED)


def conditions(present: Iterable[Object], reason: str, message: str, now: str) -> list[Object]:
    """Returns the conditions of a definition after its names were checked."""
    found = {str(condition.get("type") or ""): condition for condition in present}
    if reason:
        _set(found, NAMES_ACCEPTED, "False", reason, message, now)
        if found.get(ESTABLISHED, {}).get("status") != "True":
            _set(found, ESTABLISHED, "False", "NotAccepted", "not all names are accepted", now)
    else:
        _set(found, NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found", now)
        _set(found, ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted", now)
    return list(found.values())


def _set(found: dict[str, Object], kind: str, state: str, reason: str, message: str, now: str) -> None:
    present = found.get(kind, {})
    if present.get("status") == state and (state == "True" or present.get("reason") == reason):
        return
    since = present.get("lastTransitionTime") if present.get("status") == state else None
    values = {"lastTransitionTime": since or now, "reason": reason, "message": message}
    found[kind] = {"type": kind, "status": state, **values}
