"""Checks that many kinds share: names, lists with limits and unique items, conditions, opaque configuration.

Every check is a generator of FieldErrors; paths are strings as Kubernetes prints them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dray.api import errors, names
from dray.api.errors import FieldError
from dray.api.objects import Object

Errors = Iterator[FieldError]
MAX_WEIGHT = 100
MAX_PARAMETERS = 10240
MAX_REASON = 1024
MAX_MESSAGE = 32768
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)


def label(value: str, path: str, *, declarative: bool = False) -> Errors:
    if not names.is_label(value):
        yield errors.invalid(path, value, names.LABEL_DETAIL, declarative=declarative)


def subdomain(value: str, path: str, *, declarative: bool = False) -> Errors:
    if not names.is_subdomain(value):
        yield errors.invalid(path, value, names.SUBDOMAIN_DETAIL, declarative=declarative)


def required_label(value: str, path: str, *, declarative: bool = False) -> Errors:
    if not value:
        yield errors.required(path, declarative=declarative)
    else:
        yield from label(value, path, declarative=declarative)


def weight(value: int, path: str) -> Errors:
    """Validates the weight of a preferred affinity term."""
    if not 1 <= value <= MAX_WEIGHT:
        yield errors.invalid(path, value, f"must be in the range 1-{MAX_WEIGHT}")


def driver(value: str, path: str) -> Errors:
    yield from _subdomains(value, path, names.MAX_DRIVER, [value.lower()])


def pool(value: str, path: str) -> Errors:
    yield from _subdomains(value, path, names.MAX_POOL, value.split("/"))


def _subdomains(value: str, path: str, longest: int, parts: Iterable[str]) -> Errors:
    if not value:
        yield errors.required(path)
        return
    if names.size(value) > longest:
        yield errors.too_long(path, longest)
    for part in parts:
        yield from subdomain(part, path)


def uuid(value: str, path: str) -> Errors:
    if not names.is_uuid(value):
        yield errors.invalid(path, value, "a UUID in lower case: 8-4-4-4-12 hexadecimal digits")


def qualified_name(value: str, path: str) -> Errors:
    """`identifier` or `driver/identifier`. Names with more than one slash pass, as in Kubernetes."""
    parts = value.split("/")
    if len(parts) == 1:
        yield from _identifier(value, path)
    elif len(parts) == 2:
        domain, identifier = parts
        if not domain:
            yield errors.invalid(path, "", "the domain must not be empty")
        else:
            yield from driver(domain, path)
        if not identifier:
            yield errors.invalid(path, "", "the name must not be empty")
        else:
            yield from _identifier(identifier, path)


def fully_qualified_name(value: str, path: str, *, declarative: bool = False) -> Errors:
    """`domain/identifier`, the domain in lower case."""
    parts = value.split("/")
    if len(parts) == 1:
        yield errors.invalid(
            path,
            value,
            "a fully qualified name, such as resource.kubernetes.io/pcieRoot",
            declarative=declarative,
        )
        yield from _identifier(value, path, declarative=declarative)
    elif len(parts) == 2:
        domain, identifier = parts
        if names.size(domain) > names.MAX_DRIVER:
            yield errors.too_long(path, names.MAX_DRIVER, declarative=declarative)
        if not names.is_subdomain(domain):
            yield errors.invalid(path, domain, names.SUBDOMAIN_DETAIL, declarative=declarative)
        yield from _identifier(identifier, path, declarative=declarative)


def _identifier(value: str, path: str, *, declarative: bool = False) -> Errors:
    if names.size(value) > names.MAX_IDENTIFIER:
        yield errors.too_long(path, names.MAX_IDENTIFIER, declarative=declarative)
    if not names.is_identifier(value):
        yield errors.invalid(path, value, names.IDENTIFIER_DETAIL, declarative=declarative)


def limited(
    items: Sequence[Any],
    limit: int,
    path: str,
    check: Callable[[Any, str], Errors] | None = None,
    *,
    key: Callable[[Any], Any] | None = None,
    declarative: bool = False,
) -> Errors:
    """A list with at most `limit` items, unique by `key` if one is given; too long a list is not looked into."""
    if len(items) > limit:
        yield errors.too_many(path, len(items), limit, declarative=declarative)
        return
    seen = set()
    for index, item in enumerate(items):
        if check is not None:
            yield from check(item, f"{path}[{index}]")
        if key is not None:
            identity = key(item)
            if identity in seen:
                yield errors.duplicate(f"{path}[{index}]", identity, declarative=declarative)
            seen.add(identity)


def by(*members: str) -> Callable[[Object], Any]:
    """A key for lists of objects: the named members."""
    if len(members) == 1:
        return lambda item: item.get(members[0])
    return lambda item: tuple(item.get(member) for member in members)


def itself(item: Any) -> Any:
    return item


def union(value: Object, members: Sequence[str], path: str, *, declarative: bool = True) -> Errors:
    """Exactly one of the members is set."""
    chosen = [member for member in members if value.get(member) is not None]
    if not chosen:
        yield errors.invalid(path, "", f"must specify one of: {', '.join(members)}", declarative=declarative)
    elif len(chosen) > 1:
        yield errors.invalid(
            path,
            f"{{{', '.join(chosen)}}}",
            f"must specify exactly one of: {', '.join(members)}",
            declarative=declarative,
        )


def immutable(new: Any, old: Any, path: str, *, declarative: bool = False) -> Errors:
    """Declarative rules do not say what the new value is."""
    if new != old:
        yield errors.invalid(path, None if declarative else new, "field is immutable", declarative=declarative)


def not_negative(holder: Object, members: Iterable[str], path: str) -> Errors:
    """Numbers that may be left out."""
    for member in members:
        if (holder.get(member) or 0) < 0:
            at = f"{path}.{member}" if path else member
            yield errors.invalid(at, holder[member], "must be greater than or equal to 0")


def enum(
    value: str | None, choices: list[str], path: str, *, required: bool = False, declarative: bool = False
) -> Errors:
    if not value:
        if required:
            yield errors.required(path, declarative=declarative)
    elif value not in choices:
        yield errors.not_supported(path, value, choices, declarative=declarative)


def opaque_configuration(configuration: Object, path: str, *, stored: bool = False) -> Errors:
    """One entry of a list of configurations; `stored` entries may be longer than today's limit."""
    opaque = configuration.get("opaque")
    path = f"{path}.opaque"
    if opaque is None:
        yield errors.required(path)
        return
    yield from driver(opaque["driver"], f"{path}.driver")
    parameters = opaque["parameters"]
    if parameters is None:
        yield errors.required(f"{path}.parameters")
    else:
        yield from raw_object(parameters, f"{path}.parameters", limit=None if stored else MAX_PARAMETERS)


def raw_object(value: Any, path: str, *, limit: int | None) -> Errors:
    """A raw extension: a JSON object of at most `limit` bytes."""
    if limit is not None and _size(value) > limit:
        yield errors.too_long(path, limit)
    elif not isinstance(value, dict):
        yield errors.invalid(path, "<value omitted>", "must be a JSON object")


def _size(value: Any) -> int:
    import msgspec

    return len(msgspec.json.encode(value))


def conditions(conditions: list[Object], path: str, *, limit: int | None = None) -> Errors:
    if limit is not None and len(conditions) > limit:
        yield errors.too_many(path, len(conditions), limit)
        return
    yield from limited(conditions, len(conditions), path, _condition, key=by("type"))


def _condition(condition: Object, path: str) -> Errors:
    kind = condition["type"]
    if not kind:
        yield errors.required(f"{path}.type")
    elif not names.is_label_key(kind):
        yield errors.invalid(f"{path}.type", kind, names.LABEL_KEY_DETAIL)
    status = condition["status"]
    if not status:
        yield errors.required(f"{path}.status")
    yield from enum(status, ["True", "False", "Unknown"], f"{path}.status")
    if condition.get("observedGeneration", 0) < 0:
        yield errors.invalid(f"{path}.observedGeneration", condition["observedGeneration"], "must not be negative")
    if not condition["lastTransitionTime"]:
        yield errors.required(f"{path}.lastTransitionTime")
    yield from _reason(condition["reason"], f"{path}.reason")
    if names.size(condition["message"]) > MAX_MESSAGE:
        yield errors.too_long(f"{path}.message", MAX_MESSAGE)


def _reason(reason: str, path: str) -> Errors:
    if not reason:
        yield errors.required(path)
        return
    if not _REASON.fullmatch(reason):
        yield errors.invalid(path, reason, "a letter, then letters, digits, '_', ',' and ':', not ending in ',' or ':'")
    if names.size(reason) > MAX_REASON:
        yield errors.too_long(path, MAX_REASON)
