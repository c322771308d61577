"""Strategic merge patch: a merge patch that knows the keys of lists.

Objects merge member by member and a null removes. A list with a merge key (list_types.py) merges item by item, any
other list is replaced. Directives in the patch change that:

    $patch: replace | delete | merge       in an object, or in an item of a merged list
    $retainKeys: [member, ...]             drops all other members first
    $deleteFromPrimitiveList/<list>        values to take out of a list of plain values
    $setElementOrder/<list>                the order that the patched items end up in

Only kinds of the catalogue have merge keys; custom kinds refuse this type of patch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.objects import Object
from dray.server.list_types import MergeRule, merge_rule
from dray.server.status import bad_request, does_not_apply

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"
_encode = msgspec.json.Encoder(order="deterministic").encode


def strategic_merge(document: Object, patch: Any, type_name: str) -> Object:
    """Returns the patched document; the arguments are not changed. `type_name` is the schema of the kind's version."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch must be a JSON object")
    return _merge_object(document, patch, type_name)


def _merge_object(original: Object, patch: Object, type_name: str) -> Object:
    """Merges an object; unchanged parts are shared with the arguments."""
    original, patch = dict(original), dict(patch)
    if _PATCH in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        _merge_ordered(original, patch, key, type_name)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(original, key.removeprefix(_DELETE_FROM), value)
        elif value is None:
            original.pop(key, None)
        else:
            original[key] = _merge_member(original.get(key), value, type_name, key)
    return original


def _merge_member(present: Any, value: Any, type_name: str, key: str) -> Any:
    rule = merge_rule(type_name, key)
    if isinstance(present, dict) and isinstance(value, dict):
        return value if rule.replace else _merge_object(present, value, rule.type_name)
    if isinstance(present, list) and isinstance(value, list):
        return value if rule.replace else _merge_list(present, value, rule)
    return _without_directives(value)


def _directed(patch: Object) -> Object:
    directive = patch.pop(_PATCH)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise bad_request(f"unknown patch type: {directive!r}")


def _retain_keys(original: Object, patch: Object) -> None:
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    if not isinstance(retained, list):
        raise bad_request("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _SET_ORDER)) and key not in retained:
            raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in original if key not in retained]:
        del original[key]


def _merge_ordered(original: Object, patch: Object, directive: str, type_name: str) -> None:
    """Merges a list with its order directive, and removes both from the patch."""
    order = patch.pop(directive)
    key = directive.removeprefix(_SET_ORDER)
    present, changes = original.get(key), patch.get(key)
    for value in (order, *(v for v in (present, changes) if v is not None)):
        if not isinstance(value, list):
            raise bad_request("invalid patch format of setElementOrder list")
    if present is None and changes is None:
        return
    rule = merge_rule(type_name, key)
    _check_order(changes or [], order, rule.key)
    merged = present or []
    if present is None:
        merged = _without_directives(changes)
    elif changes is not None:
        merged = changes if rule.replace else _merge_list(present, changes, rule)
    patch.pop(key, None)
    original[key] = _arrange(merged, order, present or [], rule.key)


def _delete_from(original: Object, key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise bad_request("invalid patch format of primitive list")
    present = original.get(key)
    if isinstance(present, list):
        gone = {identity(value, "") for value in values}
        original[key] = [item for item in present if identity(item, "") not in gone]


def _merge_list(original: list[Any], patch: list[Any], rule: MergeRule) -> list[Any]:
    if not original and not patch:
        return original
    kinds = {isinstance(item, dict) for item in (*original, *patch)}
    if any(isinstance(item, list) for item in (*original, *patch)):
        raise does_not_apply("lists of lists are not supported")
    if len(kinds) > 1:
        raise bad_request("the items of a list must be of one type")
    if kinds == {False}:
        merged = _deduplicated([*original, *patch])
        return _arrange(merged, patch, original, "")
    if not rule.key:
        raise bad_request(f"cannot merge lists without merge key for {rule.type_name}")
    original, patch = _carry_out_directives(original, patch, rule.key)
    merged = _merge_items(list(original), patch, rule)
    return _arrange(merged, patch, original, rule.key)


def _carry_out_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Applies the directives of the patch's items; returns the remaining items of both lists."""
    plain, replace, deleted = [], False, set()
    for item in patch:
        directive = item.get(_PATCH)
        if _PATCH not in item:
            plain.append(item)
        elif directive == "delete":
            deleted.add(_identity(item, key))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise bad_request("merging lists cannot yet be specified in the patch")
        else:
            raise bad_request(f"unknown patch type: {directive!r}")
    if replace:
        return plain, []
    return [item for item in original if identity(item, key) not in deleted], plain


def _merge_items(merged: list[Any], patch: list[Any], rule: MergeRule) -> list[Any]:
    places = _places(merged, rule.key)
    for item in patch:
        place = places.setdefault(_identity(item, rule.key), len(merged))
        if place < len(merged):
            merged[place] = _merge_object(merged[place], item, rule.type_name)
        else:
            merged.append(_without_directives(item))
    return merged


def _identity(item: Object, key: str) -> bytes:
    if key not in item:
        raise bad_request(f"an item of the patch does not contain the declared merge key: {key}")
    return identity(item, key)


def _deduplicated(values: list[Any]) -> list[Any]:
    return list({identity(value, ""): value for value in reversed(values)}.values())[::-1]


def _without_directives(value: Any) -> Any:
    """Returns a new value of the patch without nulls and directives."""
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return {}
        return {k: _without_directives(v) for k, v in value.items() if v is not None and not _is_directive(k)}
    if isinstance(value, list):
        kept = [item for item in value if not (isinstance(item, dict) and item.get(_PATCH) in ("delete", "replace"))]
        return [_without_directives(item) for item in kept]
    return value


def _is_directive(key: str) -> bool:
    return key in (_PATCH, _RETAIN_KEYS) or key.startswith((_DELETE_FROM, _SET_ORDER))


def identity(item: Any, key: str) -> bytes:
    """Returns the identity of an item, which can be hashed: its merge key, or the whole item."""
    return _encode(item.get(key) if key and isinstance(item, dict) else item)


def _places(items: list[Any], key: str) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    for index, item in enumerate(items):
        places.setdefault(identity(item, key), index)
    return places


def _arrange(merged: list[Any], patched: list[Any], live: list[Any], key: str) -> list[Any]:
    """Sorts `merged`: patched items as in `patched`, the others as in `live`.

    Another item goes before a patched one if it did so in the live list, else after it.
    """
    named, present = _places(patched, key), _places(live, key)
    known = [(identity(item, key), item) for item in merged]
    ours = sorted((pair for pair in known if pair[0] in named), key=lambda pair: named[pair[0]])
    theirs = [pair for pair in known if pair[0] not in named]
    theirs.sort(key=lambda pair: present.get(pair[0], len(present)))
    return _weave(theirs, ours, present)


def _weave(left: list[tuple[bytes, Any]], right: list[tuple[bytes, Any]], present: dict[bytes, int]) -> list[Any]:
    woven: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        (a, first), (b, second) = left[i], right[j]
        if a in present and b in present and present[a] < present[b]:
            woven.append(first)
            i += 1
        else:
            woven.append(second)
            j += 1
    return woven + [item for _, item in left[i:]] + [item for _, item in right[j:]]


def _check_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Raises an error unless the order names every changed item, in the same order."""
    places = _places(order, key)
    at = -1
    for item in changes:
        if isinstance(item, dict) and "$patch" in item:
            continue
        place = places.get(identity(item, key), -1)
        if place <= at:
            raise bad_request("the order in the patch list does not match its $setElementOrder list")
        at = place
