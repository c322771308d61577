"""Conversion of custom objects between the versions of their kind, by the webhook that the definition names.

A `WebhookConverter` sends objects in groups, checks every answer and keeps nothing: of what comes back, the content
counts, and of the metadata only labels and annotations. What the target version does not know is pruned.

Field management runs in plain functions, in threads too, and finds out while it works which versions it needs. There a
conversion that is not known yet is raised (`Pending`) out of the function, made, and the function called anew (`run`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from dray.api.objects import Object, mapping, text
from dray.api.validation import metadata as metadata_rules
from dray.server import documents
from dray.server.custom import defaults
from dray.server.custom.definitions import CustomVersion
from dray.server.fieldmanager.tracked_kinds import Unconvertible
from dray.server.webhook_client import WebhookClient, WebhookError
from dray.server.worker import Worker

SECONDS: Final = 30
REVIEWS: Final = ("v1", "v1beta1")
_GROUP: Final = "apiextensions.k8s.io"
# Limits of objects and bytes in one review, and of reviews at a time: the answer to a review is bounded too.
_MOST_OBJECTS: Final = 100
_MOST_BYTES: Final = 1 << 20
_AT_ONCE: Final = 4
_MOST_ROUNDS: Final = 100
_LONGEST_MESSAGE: Final = 8192

_Arguments = ParamSpec("_Arguments")
_Outcome = TypeVar("_Outcome")
_Known = dict[tuple[bytes, str], Object | Unconvertible]


class _Result(msgspec.Struct):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct):
    uid: str = ""
    result: _Result = msgspec.field(default_factory=_Result)
    convertedObjects: list[Any] = []


class _Review(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    response: _Response | None = None


_read_review = msgspec.json.Decoder(_Review).decode


class WebhookConverter:
    """Converts by webhook; `webhook` is `spec.conversion.webhook`, `versions` has all versions by apiVersion."""

    def __init__(
        self,
        client: WebhookClient,
        worker: Worker,
        webhook: Object,
        versions: Mapping[str, CustomVersion],
        new_uid: Callable[[], str],
    ) -> None:
        self._client, self._worker = client, worker
        self._client_config = webhook["clientConfig"]
        self._review = next((version for version in webhook["conversionReviewVersions"] if version in REVIEWS), "")
        self._versions = versions
        self._new_uid = new_uid

    async def convert(self, objects: Sequence[Object], api_version: str, size: int = 0) -> list[Object]:
        """Converts a few objects of `size` bytes, in their order; raises Unconvertible."""
        wanted = [obj for obj in objects if obj.get("apiVersion") != api_version]
        made = iter(await self._ask(wanted, api_version, size) if wanted else ())
        return [obj if obj.get("apiVersion") == api_version else next(made) for obj in objects]

    async def convert_stored(self, values: Sequence[bytes], api_version: str) -> list[bytes]:
        """Converts stored documents, of which there may be many; raises Unconvertible."""
        groups, converted = list(_groups(values)), list[bytes]()
        for start in range(0, len(groups), _AT_ONCE):
            asked = (self._convert_group(group, api_version) for group in groups[start : start + _AT_ONCE])
            for made in await asyncio.gather(*asked):
                converted += made
        return converted

    async def _convert_group(self, values: Sequence[bytes], api_version: str) -> list[bytes]:
        size = sum(map(len, values))
        found = await self._worker.run(size, lambda: [self._pruned(documents.decode(value)) for value in values])
        made = await self.convert(found, api_version, size)
        return await self._worker.run(
            size, lambda: [documents.encode(documents.ordered(obj, obj["kind"], api_version)) for obj in made]
        )

    def _pruned(self, obj: Object) -> Object:
        version = self._versions.get(obj["apiVersion"])
        kept: Object = defaults.prune(obj, version.schema)[0] if version is not None else obj
        return kept

    async def _ask(self, objects: Sequence[Object], api_version: str, size: int) -> list[Object]:
        named = f"conversion webhook for {objects[0].get('apiVersion')}, Kind={objects[0].get('kind')}"
        for obj in objects:
            if obj.get("apiVersion") not in self._versions:
                why = f"request to convert CR from an invalid group/version: {obj.get('apiVersion')}"
                raise _failed(why)
        uid = self._new_uid()
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
        review = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{self._review}", "request": request}
        try:
            body = await self._worker.run(size, documents.encode, review)
            answer = await self._client.post(self._client_config, body, SECONDS)
            returned = await self._worker.run(len(answer), self._objects, answer, uid)
        except WebhookError as error:
            raise _failed(f"{named} failed: {error}") from None
        if len(returned) != len(objects):
            raise _failed(f"{named} returned {len(returned)} objects, expected {len(objects)}")
        return await self._worker.run(len(answer), self._all_checked, objects, returned, api_version, named)

    def _all_checked(
        self, objects: Sequence[Object], returned: list[Any], api_version: str, named: str
    ) -> list[Object]:
        made = []
        for index, (before, after) in enumerate(zip(objects, returned, strict=True)):
            try:
                made.append(self._checked(before, after, api_version))
            except (WebhookError, RecursionError) as error:
                said = str(error) if isinstance(error, WebhookError) else "it is nested too deeply"
                raise _failed(f"{named} returned invalid converted object at index {index}: {said}") from None
        return made

    def _objects(self, answer: bytes, uid: str) -> list[Any]:
        """Returns the converted objects of a response; raises WebhookError."""
        try:
            review = _read_review(answer)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise WebhookError(f"the answer cannot be read: {error}") from None
        strict, wanted = self._review == "v1", f"{_GROUP}/{self._review}"
        if strict and (review.apiVersion, review.kind) != (wanted, "ConversionReview"):
            got = f"{review.apiVersion[:64]}, Kind={review.kind[:64]}"
            raise WebhookError(f"expected webhook response of {wanted}, Kind=ConversionReview, got {got}")
        response = review.response
        if response is None:
            raise WebhookError("no response provided")
        if strict and response.uid != uid:
            raise WebhookError(f'expected response.uid="{uid}", got "{response.uid[:64]}"')
        result = response.result
        if result.status != "Success":
            said = f"response.result.status was '{result.status[:64]}', not 'Success'"
            raise WebhookError(result.message[:_LONGEST_MESSAGE] or said)
        return response.convertedObjects

    def _checked(self, before: Object, after: Any, api_version: str) -> Object:
        """Returns a converted object with the metadata that a conversion must not change; raises WebhookError."""
        if not isinstance(after, dict):
            raise WebhookError("it is not an object")
        if after.get("apiVersion") != api_version:
            got = text(after.get("apiVersion"))[:64]
            raise WebhookError(f"invalid groupVersion (expected {api_version}, received {got})")
        if after.get("kind") != before["kind"]:
            raise WebhookError(f"invalid kind (expected {before['kind']}, received {text(after.get('kind'))[:64]})")
        metadata, former = after.get("metadata"), mapping(before.get("metadata"))
        if not isinstance(metadata, dict):
            raise WebhookError("missing metadata in converted object")
        for member, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
            was, now = former.get(member) or "", metadata.get(member) or ""
            if was != now:
                raise WebhookError(f"must have the same {shown}: {was} != {text(now)[:256]}")
        kept = {name: value for name, value in former.items() if name not in _CHANGEABLE}
        for member in _CHANGEABLE:
            given = metadata.get(member)
            if given is not None:
                _check_texts(member, given, former.get(member))
                kept[member] = given
        return {**self._pruned(after), "metadata": kept}


_CHANGEABLE: Final = {"labels": metadata_rules.labels, "annotations": metadata_rules.annotations}


def _check_texts(member: str, given: Any, former: Any) -> None:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise WebhookError(f"metadata.{member} must be texts by name in converted object")
    problem = next(iter(_CHANGEABLE[member](given, f"metadata.{member}")), None) if given != former else None
    if problem is not None:
        raise WebhookError(f"{problem.field}: {problem.detail}")


def _failed(why: str) -> Unconvertible:
    # Kubernetes gives these errors no reason.
    return Unconvertible(500, "", why)


def _groups(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    group, size = list[bytes](), 0
    for value in values:
        if group and (len(group) >= _MOST_OBJECTS or size + len(value) > _MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(value)
        size += len(value)
    if group:
        yield group


class Pending(Exception):
    """Raised by a function that needs a conversion which is not made yet."""

    def __init__(self, converter: WebhookConverter, obj: Object, api_version: str) -> None:
        super().__init__(api_version)
        self.converter, self.obj, self.api_version = converter, obj, api_version

    async def resolve(self) -> Object | Unconvertible:
        try:
            return (await self.converter.convert([self.obj], self.api_version))[0]
        except Unconvertible as error:
            return error


_known: ContextVar[_Known | None] = ContextVar("known conversions", default=None)


def known(converter: WebhookConverter, obj: Object, api_version: str) -> Object:
    """Returns the object in a version, within a function that `run` calls; raises Pending or Unconvertible."""
    found = (_known.get() or {}).get((documents.encode(obj), api_version))
    if found is None:
        raise Pending(converter, obj, api_version)
    if isinstance(found, Unconvertible):
        raise found
    return found


async def run(
    worker: Worker, size: int, work: Callable[_Arguments, _Outcome], *args: _Arguments.args, **named: _Arguments.kwargs
) -> _Outcome:
    """Runs `work` in the worker, and again after each conversion that it needs; returns its result."""
    conversions: _Known = {}

    def attempt() -> _Outcome:
        token = _known.set(conversions)
        try:
            return work(*args, **named)
        finally:
            _known.reset(token)

    for _ in range(_MOST_ROUNDS):
        try:
            return await worker.run(size, attempt)
        except Pending as pending:
            key = (documents.encode(pending.obj), pending.api_version)
            conversions[key] = await pending.resolve()
    raise _failed("the owners of the object's fields use too many versions")
