"""Which version of a kind a server serves, and the informer of a kind that it may not serve, or not yet.

Kubernetes 1.34 to 1.37 differ in the kinds and versions they serve, and what is served also depends on how the server
was started. So the parts that read such a kind ask first, and do without it where there is none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from dray.api.catalogue import KINDS, Kind, KindVersion
from dray.client.backoff import Backoff
from dray.client.cache import Cache, Index
from dray.client.errors import ApiError, ClientError
from dray.client.informer import Handler, Informer
from dray.client.informers import Informers
from dray.client.interface import Client, Resource
from dray.client.retries import Retries

# A server that is replaced by a newer one may come to serve the kind.
_LOOK_AGAIN: Final = 600.0
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=30.0))
_logger = logging.getLogger(__name__)
T = TypeVar("T")


async def served_version(
    client: Client, group: str, plural: str, versions: Iterable[str] | None = None
) -> KindVersion | None:
    """The first of the versions that the server serves; without versions the newest that the catalogue knows.

    None means that the server answered and has none of them. Raises ClientError where it did not answer.
    """
    kind = _kind(group, plural)
    for name in versions if versions is not None else [version.name for version in kind.versions]:
        version = kind.version(name)
        if version is not None and await serves(client, version):
            return version
    return None


async def serves(client: Client, resource: Resource) -> bool:
    """Raises ClientError where the server did not answer."""
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    try:
        answer = await client.request("GET", f"{prefix}/{resource.version}")
    except ApiError as error:
        if error.is_not_found:
            return False
        raise
    return any(each.get("name") == resource.plural for each in answer.get("resources") or ())


async def until_answered(ask: Callable[[], Awaitable[T]], what: str, retries: Retries = _RETRIES) -> T:
    """What the server said in the end, however often it had to be asked."""
    failures = 0
    while True:
        try:
            return await ask()
        except ClientError as error:
            failures += 1
            level = logging.WARNING if failures == 1 else logging.DEBUG
            _logger.log(level, "cannot ask for %s: %s", what, error)
            await retries.pause(failures, error.retry_after if isinstance(error, ApiError) else 0)


class OptionalInformer:
    """The informer of a kind that may not be served. Until it is, its cache is empty, and nothing is asked of it.

    `start` must have returned before the cache means anything; `run` looks whether the kind is served later on.
    """

    def __init__(
        self,
        client: Client,
        informers: Informers,
        group: str,
        plural: str,
        *,
        indexes: dict[str, Index] | None = None,
        retries: Retries = _RETRIES,
        look_again: float = _LOOK_AGAIN,
    ) -> None:
        self.version: KindVersion | None = None
        """What the server serves of it."""
        self._client = client
        self._informers = informers
        self._group, self._plural = group, plural
        self._indexes = indexes
        self._retries = retries
        self._look_again = look_again
        self._handlers: list[Handler] = []
        self._informer: Informer | None = None
        self._nothing = Cache(indexes)

    @property
    def cache(self) -> Cache:
        return self._nothing if self._informer is None else self._informer.cache

    def add_handler(self, handler: Handler) -> None:
        self._handlers.append(handler)
        if self._informer is not None:
            self._informer.add_handler(handler)

    async def start(self) -> None:
        """Returns when the server said that it does not serve the kind, or when the first list is in the cache."""
        await until_answered(self._look, f"the versions of {self._plural}", self._retries)

    async def run(self) -> None:
        """Until it is cancelled."""
        while self._informer is None:
            await self._retries.sleep(self._look_again)
            await self.start()
        await asyncio.Event().wait()

    async def _look(self) -> None:
        self.version = await served_version(self._client, self._group, self._plural)
        if self.version is None:
            _logger.debug("%s.%s is not served", self._plural, self._group)
            return
        informer = self._informers.of(self.version, self._indexes)
        await informer.synced()
        self._informer = informer
        for handler in self._handlers:
            informer.add_handler(handler)


def _kind(group: str, plural: str) -> Kind:
    for kind in KINDS:
        if (kind.group, kind.plural) == (group, plural):
            return kind
    raise KeyError(f"{plural}.{group}")
