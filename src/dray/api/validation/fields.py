"""Checks that many kinds share: single names, lists with limits and unique items.

Every check is a generator of FieldErrors; paths are strings as Kubernetes prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dray.api import errors, names
from dray.api.errors import FieldError
from dray.api.objects import Object

Errors = Iterator[FieldError]
MAX_WEIGHT = 100


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
    """Of a preferred term of affinity."""
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


def enum(
    value: str | None, choices: list[str], path: str, *, required: bool = False, declarative: bool = False
) -> Errors:
    if not value:
        if required:
            yield errors.required(path, declarative=declarative)
    elif value not in choices:
        yield errors.not_supported(path, value, choices, declarative=declarative)
