"""What a viewer may see: answers of access reviews, remembered for a while.

A viewer sees the objects that they may list: in the whole cluster, or in single namespaces. The API server is asked
with SelfSubjectAccessReviews in the viewer's name. An answer is kept for 20 seconds and shared by all sessions of a
user, so that the number of reviews does not depend on the number of requests. Only namespaces that have objects of a
kind are asked for, at most 2,000 of a kind; eight reviews of a user run at a time. Where there are more than a hundred
namespaces, a no is kept for longer, so that few of them are asked for again in a second. What was never answered is
not seen.
While the API server cannot answer, the last answers count: what is shown was read before, and nothing new comes. It is
asked again every five seconds then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from dray.api.objects import Object, key_of, mapping
from dray.client.api import ApiClient
from dray.client.errors import ApiError, ClientError, ConnectionFailed
from dray.client.interface import GroupVersionResource
from dray.web.access import Identity
from dray.web.model import Model, Table

REVIEWS: Final = GroupVersionResource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_KEPT: Final = 20.0
_NAMESPACES_KEPT: Final = 100
"""Up to so many namespaces, a no is kept as long as a yes; with ten times as many, ten times as long."""
_KEPT_WITHOUT_ANSWER: Final = 5.0
_FORGOTTEN: Final = 60.0
"""Seconds after which an answer that is not kept any more is forgotten: until then it counts if there is no other."""
_MOST_USERS: Final = 200
_MOST_NAMESPACES: Final = 2000
_AT_ONCE: Final = 8
_logger = logging.getLogger(__name__)


class Named(Protocol):
    """What a review is about: a resource of any version."""

    @property
    def group(self) -> str: ...

    @property
    def plural(self) -> str: ...


async def review(client: ApiClient, verb: str, resource: Named, namespace: str = "", name: str = "") -> bool:
    """Whether the user of the client may do it; as `kubectl auth can-i` asks. Raises ClientError."""
    asked = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace, "name": name}
    attributes = {key: value for key, value in asked.items() if value}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(REVIEWS, body)
    return mapping(answer.get("status")).get("allowed") is True


@dataclass(frozen=True, slots=True)
class Sight:
    """Where a viewer sees objects, by kind: None for everywhere, or namespaces. Equal for viewers with equal rights."""

    namespaces: Mapping[str, frozenset[str] | None]

    def sees(self, kind: str, namespace: str = "") -> bool:
        allowed = self.namespaces.get(kind, frozenset())
        return allowed is None or namespace in allowed

    def sees_all(self, kind: str) -> bool:
        return self.namespaces.get(kind, frozenset()) is None

    def objects(self, kind: str, table: Table) -> Iterator[Object]:
        allowed = self.namespaces.get(kind, frozenset())
        if allowed is None:
            yield from table
        elif allowed:
            yield from (each for each in table if key_of(each)[0] in allowed)

    @property
    def fingerprint(self) -> tuple[tuple[str, frozenset[str] | None], ...]:
        return tuple(sorted(self.namespaces.items(), key=lambda each: each[0]))


@dataclass(slots=True)
class _Answers:
    """Of one user: what was answered, and until when that is kept."""

    kept: dict[tuple[str, ...], tuple[bool, float]] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    trouble: str = ""
    """Why the last review has no answer."""


class Rights:
    def __init__(self, model: Model, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model
        self._clock = clock
        self._users: dict[str, _Answers] = {}

    async def sight(self, identity: Identity, kinds: Sequence[str]) -> Sight:
        """What the viewer sees of these kinds now."""
        found: dict[str, frozenset[str] | None] = {}
        for kind in kinds:
            table = self._model.table(kind)
            if table.resource is None:
                found[kind] = frozenset()
            elif await self.may(identity, "list", table.resource):
                found[kind] = None
            elif table.resource.namespaced:
                names = sorted(name for name, number in table.namespaces.items() if number > 0)[:_MOST_NAMESPACES]
                answers = await self._ask(identity, [("list", table.resource, name, "") for name in names])
                found[kind] = frozenset(name for name, allowed in zip(names, answers, strict=True) if allowed)
            else:
                found[kind] = frozenset()
        return Sight(found)

    async def may(self, identity: Identity, verb: str, resource: Named, namespace: str = "", name: str = "") -> bool:
        """Whether the viewer may do something, by an answer that is at most 20 seconds old."""
        [allowed] = await self._ask(identity, [(verb, resource, namespace, name)])
        return allowed

    def trouble(self, identity: Identity) -> str:
        """Why the rights of a viewer are not known now; empty if they are."""
        answers = self._users.get(identity.key)
        return answers.trouble if answers is not None else ""

    async def _ask(self, identity: Identity, asked: Sequence[tuple[str, Named, str, str]]) -> list[bool]:
        answers = self._answers(identity.key)
        keys = [(verb, resource.group, resource.plural, *place) for verb, resource, *place in asked]
        if not self._all_kept(answers, keys):
            # Who asks at the same time waits for the same answers.
            async with answers.lock:
                await self._review(identity, answers, asked)
        now = self._clock()
        return [answers.kept.get(key, (False, now))[0] for key in keys]

    def _all_kept(self, answers: _Answers, keys: Sequence[tuple[str, ...]]) -> bool:
        now = self._clock()
        return all(answers.kept.get(key, (False, 0.0))[1] > now for key in keys)

    async def _review(
        self, identity: Identity, answers: _Answers, asked: Sequence[tuple[str, Named, str, str]]
    ) -> None:
        now = self._clock()
        room = asyncio.Semaphore(_AT_ONCE)
        for key in [key for key, (_, until) in answers.kept.items() if until + _FORGOTTEN < now]:
            del answers.kept[key]

        async def one(verb: str, resource: Named, namespace: str, name: str) -> None:
            key = (verb, resource.group, resource.plural, namespace, name)
            if answers.kept.get(key, (False, 0.0))[1] > now:
                return
            kept = _KEPT
            async with room:
                try:
                    allowed = await review(identity.client, verb, resource, namespace, name)
                    if not allowed:
                        kept *= max(1.0, len(asked) / _NAMESPACES_KEPT)
                    answers.trouble = ""
                except ClientError as error:
                    if not answers.trouble:
                        _logger.warning("no answer about the rights of %s: %s", identity.name, error)
                    answers.trouble, kept = _trouble(error), _KEPT_WITHOUT_ANSWER
                    allowed = _is_away(error) and answers.kept.get(key, (False, 0.0))[0]
            answers.kept[key] = allowed, self._clock() + kept

        await asyncio.gather(*(one(*each) for each in asked))

    def _answers(self, key: str) -> _Answers:
        answers = self._users.pop(key, None) or _Answers()
        self._users[key] = answers
        while len(self._users) > _MOST_USERS:
            del self._users[next(iter(self._users))]
        return answers


def _is_away(error: ClientError) -> bool:
    """Whether the API server cannot answer now, as while it starts again; a refusal is an answer."""
    return not isinstance(error, ApiError) or error.status >= 500


def _trouble(error: ClientError) -> str:
    if isinstance(error, ConnectionFailed):
        return f"the API server does not answer: {error.cause}"
    return f"the API server does not say what you may see: {error}"
