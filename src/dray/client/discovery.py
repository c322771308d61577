"""Discovery: what a server serves, and the informer of a kind that it may not serve, or not yet.

Kubernetes 1.34 to 1.37 differ in the kinds and versions they serve, and what is served also depends on how the server
was started. So the parts that read such a kind ask first, and do without it where there is none. Parts that work on
every kind there is read the aggregated form, which has all groups in two documents.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from dray.api.catalogue import KINDS, Kind, KindVersion
from dray.api.objects import Object, key_of, mapping
from dray.client.api import ApiClient
from dray.client.cache import Cache, Index
from dray.client.errors import ApiError, ClientError, Garbled, NotFound
from dray.client.informer import Handler, Informer, Informers
from dray.client.interface import Resource
from dray.client.retries import Backoff, Retries

# A server that is replaced by a newer one may come to serve the kind.
_LOOK_AGAIN: Final = 600.0
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=30.0))
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource in one of the versions it is served in."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def title(self) -> str:
        """As kubectl calls an object of the kind: `pod`, `resourceclaim.resource.k8s.io`."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()


@dataclass(frozen=True, slots=True)
class Discovered:
    """`failed` are groups of which not every version answered, with what went wrong: there may be more in them."""

    resources: tuple[ServedResource, ...]
    """Groups and versions in the server's order of preference."""
    failed: dict[str, str]

    @property
    def preferred(self) -> Iterable[ServedResource]:
        """Each resource in its preferred version."""
        found: dict[str, ServedResource] = {}
        for resource in self.resources:
            found.setdefault(resource.qualified, resource)
        return found.values()


async def discover(client: ApiClient) -> Discovered:
    """Raises ClientError where there is no answer."""
    resources: list[ServedResource] = []
    failed: dict[str, str] = {}
    for path in ("/api", "/apis"):
        answer = await client.request("GET", path, accept=_AGGREGATED)
        if answer.get("kind") != "APIGroupDiscoveryList":
            raise Garbled("the server cannot list all it serves at once, as Kubernetes does since 1.27")
        for group in answer.get("items") or ():
            name = key_of(group)[1]
            for version in group.get("versions") or ():
                if version.get("freshness") == "Stale":
                    # An aggregated server that is down: what is listed may be old.
                    failed[name] = f"stale GroupVersion discovery: {name}/{version['version']}"
                else:
                    resources += _resources(name, version)
    return Discovered(tuple(resources), failed)


def _resources(group: str, version: Object) -> Iterator[ServedResource]:
    for each in version.get("resources") or ():
        if kind := mapping(each.get("responseKind")).get("kind"):
            yield ServedResource(
                group=group,
                version=version["version"],
                plural=each["resource"],
                kind=kind,
                namespaced=each.get("scope") == "Namespaced",
                verbs=frozenset(each.get("verbs") or ()),
                singular=each.get("singularResource") or kind.lower(),
                short_names=tuple(each.get("shortNames") or ()),
                categories=tuple(each.get("categories") or ()),
            )


async def served_version(
    client: ApiClient, group: str, plural: str, versions: Iterable[str] | None = None
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


async def serves(client: ApiClient, resource: Resource) -> bool:
    """Raises ClientError where the server did not answer."""
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    try:
        answer = await client.request("GET", f"{prefix}/{resource.version}")
    except NotFound:
        return False
    return any(each.get("name") == resource.plural for each in answer.get("resources") or ())


async def may_list(client: ApiClient, resource: Resource) -> bool:
    """Whether the server lets us; for kinds that are left out of account where it does not."""
    try:
        await client.list(resource, limit=1)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        _logger.warning("%s are left out of account: %s", resource.plural, error)
        return False
    return True


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
        client: ApiClient,
        informers: Informers,
        group: str,
        plural: str,
        *,
        version: ServedResource | None = None,
        admit: Callable[[], Awaitable[bool]] | None = None,
        indexes: dict[str, Index] | None = None,
        retries: Retries = _RETRIES,
        look_again: float = _LOOK_AGAIN,
    ) -> None:
        """`version` is that of a kind that the catalogue does not have. `admit` is asked, where the kind is served,
        whether it is to be read."""
        self.version: KindVersion | ServedResource | None = None
        """What the server serves of it."""
        self._custom = version
        self._admit = admit
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
        if self._custom is None:
            self.version = await served_version(self._client, self._group, self._plural)
        else:
            self.version = self._custom if await serves(self._client, self._custom) else None
        if self.version is None:
            _logger.debug("%s.%s is not served", self._plural, self._group)
            return
        if self._admit is not None and not await self._admit():
            self.version = None
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
