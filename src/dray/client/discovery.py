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

# A server that is upgraded may start to serve the kind.
_LOOK_AGAIN: Final = 600.0
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=30.0))
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource in one of its served versions."""

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
        """Returns the name that kubectl uses for an object of the kind: `pod`, `resourceclaim.resource.k8s.io`."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()


@dataclass(frozen=True, slots=True)
class Discovered:
    """Result of discovery; `failed` has the errors of groups that could not be read completely."""

    resources: tuple[ServedResource, ...]
    """Resources, in the server's order of preference for groups and versions."""
    failed: dict[str, str]

    @property
    def preferred(self) -> Iterable[ServedResource]:
        """Yields each resource in its preferred version."""
        found: dict[str, ServedResource] = {}
        for resource in self.resources:
            found.setdefault(resource.qualified, resource)
        return found.values()


async def discover(client: ApiClient) -> Discovered:
    """Reads the served resources. Raises ClientError if the server does not answer."""
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
                    # Stale resources of an aggregated server that is down.
                    failed[name] = f"stale GroupVersion discovery: {name}/{version['version']}"
                else:
                    resources += _resources(name, version)
    return Discovered(tuple(resources), failed)


def _resources(group: str, version: Object) -> Iterator[ServedResource]:
    for resource in version.get("resources") or ():
        if kind := mapping(resource.get("responseKind")).get("kind"):
            yield ServedResource(
                group=group,
                version=version["version"],
                plural=resource["resource"],
                kind=kind,
                namespaced=resource.get("scope") == "Namespaced",
                verbs=frozenset(resource.get("verbs") or ()),
                singular=resource.get("singularResource") or kind.lower(),
                short_names=tuple(resource.get("shortNames") or ()),
                categories=tuple(resource.get("categories") or ()),
            )


async def served_version(
    client: ApiClient, group: str, plural: str, versions: Iterable[str] | None = None
) -> KindVersion | None:
    """Returns the first of the versions that the server serves; by default, the newest in the catalogue.

    Returns None if the server answered and serves none of them. Raises ClientError if it did not answer.
    """
    kind = _kind(group, plural)
    for name in versions if versions is not None else [version.name for version in kind.versions]:
        version = kind.version(name)
        if version is not None and await serves(client, version):
            return version
    return None


async def serves(client: ApiClient, resource: Resource) -> bool:
    """Returns True if the server serves the resource. Raises ClientError if it does not answer."""
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    try:
        answer = await client.request("GET", f"{prefix}/{resource.version}")
    except NotFound:
        return False
    return any(found.get("name") == resource.plural for found in answer.get("resources") or ())


async def may_list(client: ApiClient, resource: Resource) -> bool:
    """Returns True if the client is allowed to list the resource."""
    try:
        await client.list(resource, limit=1)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        _logger.warning("%s are left out of account: %s", resource.plural, error)
        return False
    return True


async def until_answered(ask: Callable[[], Awaitable[T]], what: str, retries: Retries = _RETRIES) -> T:
    """Calls `ask` until the server answers. Returns the answer."""
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
    """The informer of a kind that may not be served. Until it is served, its cache is empty.

    `start` must have returned before the cache is used; `run` checks whether the kind is served later.
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
        """`version` is for a kind that is not in the catalogue.

        `admit` is called once the kind is served, and says whether to read it.
        """
        self.version: KindVersion | ServedResource | None = None
        """The version that the server serves; None if it serves none."""
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
        """Returns when the server does not serve the kind, or the first list is in the cache."""
        await until_answered(self._look, f"the versions of {self._plural}", self._retries)

    async def run(self) -> None:
        """Checks from time to time whether the kind is served, until it is cancelled."""
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
