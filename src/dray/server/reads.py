"""Reads (get and list) straight from the bytes of the store."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from dray.api import errors
from dray.api.intake import Place
from dray.api.objects import Object
from dray.server import parameters, representations, status
from dray.server.context import Context
from dray.server.negotiation import Form
from dray.server.resources import Resource
from dray.server.selection import Selection, select
from dray.store.interface import Ahead, Compacted, Record

_CHUNK = 500
# Limit in stored bytes of a page with `limit`, so that making and reading it is short.
PAGE_BYTES = 8 << 20
_TOO_OLD = "The resourceVersion for the provided list is too old."
_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
# Revision in a token: continue with the newest state.
_NEWEST = -1


@dataclass(frozen=True, slots=True)
class ListOptions:
    selection: Selection
    limit: int = 0
    # Last key of the page before, and its revision.
    after: str = ""
    revision: int = 0


def get(context: Context, resource: Resource, place: Place) -> Record:
    """Returns the stored record; raises a 404."""
    record = context.store.get(resource.key(place.namespace, place.name))
    if record is None:
        raise status.not_found(resource.group, resource.plural, place.name)
    return record


async def seen(context: Context, resource: Resource, place: Place) -> bytes:
    """Returns the stored document, converted if needed; raises a 404."""
    value = get(context, resource, place).value
    return (await resource.seen([value]))[0] if resource.converts else value


async def converted(resource: Resource, records: list[Record]) -> list[Record]:
    """Returns the records with documents in a form that the resource reads."""
    if not resource.converts:
        return records
    values = await resource.seen([record.value for record in records])
    return [msgspec.structs.replace(record, value=value) for record, value in zip(records, values, strict=True)]


async def list_objects(
    context: Context, resource: Resource, namespace: str, query: Mapping[str, str], form: Form
) -> Iterator[bytes]:
    """Yields the present list in pieces."""
    options = list_options(context, resource, namespace, query)
    prefix = list_prefix(resource, namespace)
    try:
        records, revision, remaining = await _page(context, resource, prefix, options)
    except Compacted:
        raise _expired(options) from None
    except Ahead:
        raise status.too_large_version(options.revision, context.store.revision) from None
    head: Object = {"resourceVersion": str(revision)}
    if remaining:
        head["continue"] = _token(revision, records[-1].key.removeprefix(prefix) if records else options.after)
        if remaining > 0:
            head["remainingItemCount"] = remaining
    values = (record.value for record in records)
    return representations.several(resource, values, head, form, context.now(), query.get("includeObject", ""))


def _expired(options: ListOptions) -> status.ApiError:
    """Returns a 410; a client that reads pages gets a token to continue with the newest state."""
    if not options.after:
        return status.expired(_TOO_OLD)
    return status.expired(_INCONSISTENT, metadata={"continue": _token(_NEWEST, options.after)})


def list_prefix(resource: Resource, namespace: str) -> str:
    return f"{resource.key_prefix}{namespace}/" if namespace else resource.key_prefix


async def _page(
    context: Context, resource: Resource, prefix: str, options: ListOptions
) -> tuple[list[Record], int, int]:
    """Returns the records, the revision of the list, and how many are left (-1: unknown)."""
    after = prefix + options.after if options.after else ""
    if options.selection.everything:
        page = context.store.list(prefix, limit=options.limit, after=after, revision=options.revision)
        records = _first_bytes(page.records) if options.limit else page.records
        remaining = page.remaining + len(page.records) - len(records)
        return await converted(resource, records), page.revision, remaining
    found: list[Record] = []
    revision = options.revision
    while True:
        page = context.store.list(prefix, limit=_CHUNK if options.limit else 0, after=after, revision=revision)
        revision = page.revision
        matching = await selected(context, await converted(resource, page.records), options.selection)
        found += matching
        if options.limit and (len(found) >= options.limit or _size(found) >= PAGE_BYTES):
            found = _first_bytes(found[: options.limit])
            more = found[-1].key != page.records[-1].key or page.remaining > 0
            return found, revision, -1 if more else 0
        if not page.remaining or not page.records:
            return found, revision, 0
        after = page.records[-1].key


async def selected(context: Context, records: list[Record], selection: Selection) -> list[Record]:
    """Returns the records that match."""
    if selection.everything:
        return records
    return await context.worker.run(_size(records), _matching, records, selection)


def _matching(records: list[Record], selection: Selection) -> list[Record]:
    return [record for record in records if selection.matches(record.value)]


def _first_bytes(records: list[Record]) -> list[Record]:
    """Returns as many records as fit in a page, at least one."""
    size = 0
    for number, record in enumerate(records, 1):
        size += len(record.value)
        if size >= PAGE_BYTES:
            return records[:number]
    return records


def _size(records: list[Record]) -> int:
    return sum(len(record.value) for record in records)


def list_options(context: Context, resource: Resource, namespace: str, query: Mapping[str, str]) -> ListOptions:
    selection = select(query, resource.fields, resource.read)
    limit = max(0, parameters.whole_number(query, "limit") or 0)
    parameters.whole_number(query, "timeoutSeconds")
    token = query.get("continue", "")
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    _check_match(version, match, token, query)
    if token:
        revision, after = _read_token(token)
        return ListOptions(selection, limit, after, 0 if revision == _NEWEST else revision)
    revision = read_version(version)
    if revision > context.store.revision:
        raise status.too_large_version(revision, context.store.revision)
    exact = match == "Exact" or (not match and limit and revision)
    return ListOptions(selection, limit, revision=revision if exact else 0)


def _check_match(version: str, match: str, token: str, query: Mapping[str, str]) -> None:
    problems = []
    if match:
        if not version:
            problems.append(
                errors.forbidden(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if token:
            problems.append(
                errors.forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if match not in ("Exact", "NotOlderThan"):
            problems.append(errors.not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
        elif match == "Exact" and version == "0":
            problems.append(
                errors.forbidden(
                    "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                )
            )
    if parameters.boolean(query, "sendInitialEvents") is not None:
        problems.append(errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if problems:
        raise status.invalid("ListOptions", "meta.k8s.io", "", problems)
    if token and version not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")


def read_version(text: str) -> int:
    if text in ("", "0"):
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise status.bad_request(f'invalid resource version "{text}": strconv.ParseUint: parsing "{text}"')
    return int(text)


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def _token(revision: int, last: str) -> str:
    encoded = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, last + "\0"))
    return base64.urlsafe_b64encode(encoded).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, str]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise status.bad_request(f"continue key is not valid: {error}") from None
    if (
        token.v != "meta.k8s.io/v1"
        or not (token.rv == _NEWEST or 0 < token.rv < 2**63)
        or not token.start.endswith("\0")
    ):
        raise status.bad_request("continue key is not valid: incorrect encoded start")
    return token.rv, token.start[:-1]
