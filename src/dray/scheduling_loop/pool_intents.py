"""Intents of schedulers to give away devices of a pool: one record for each pool, as it is stored and known.

A record is deleted where nothing is left that a new one would have to know: its pool has not been published for a
while, no claim holds a device of it, no intent on it may yet be carried out, and the claims are known as far as the
record was `seen`. All of that holds for one version of the record, and only that version is deleted: an intent that
another scheduler enters meanwhile makes it another one. Whoever writes on top of a deleted record is refused and
decides again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import msgspec

from dray.api.objects import Key, Object, mapping
from dray.client.api import ApiClient
from dray.client.errors import ApiError, ClientError, Conflict, NotFound
from dray.client.interface import DeleteOptions, Resource
from dray.scheduling.core.state import State

# Label and name stand on clusters, where schedulers of other versions read them.
LABEL: Final = "dray.dev/ledger"
PoolKey = tuple[str, str]
"""(driver, pool name)."""

_encode = msgspec.json.Encoder().encode
WHILE: Final = 600.0
# Of a resource version, which is a 64-bit number.
_MOST_DIGITS: Final = 20
# As many are deleted at a time.
_BATCH: Final = 20
_logger = logging.getLogger("dray.scheduler")


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The intent of a writer to write an allocation of these devices into one version of a claim."""

    id: str
    """A unique id."""
    writer: str
    uid: str
    namespace: str
    name: str
    base: str
    """The resource version of the claim. Once the claim has another version, the intent cannot be carried out."""
    results: list[dict[str, Any]]

    @property
    def claim(self) -> Key:
        return self.namespace, self.name

    @property
    def hold(self) -> Key:
        """The key under which the devices of the intent are held; no claim has such a key."""
        return "", f"intent/{self.id}"


_decode = msgspec.json.Decoder(list[Intent]).decode


@dataclass(slots=True)
class PoolIntents:
    """The intents of one pool, with the version of the record from which they were read."""

    pool: PoolKey
    version: str = ""
    """The resource version of the record; empty if there is no record."""
    seen: int = 0
    """A scheduler that allocates devices of the pool must know the claims up to this resource version: intents that
    were carried out by then are no longer listed."""
    intents: tuple[Intent, ...] = ()
    epoch: int = 0
    """Incremented when another scheduler changed the record."""
    serial: int = 0
    unreadable_since: float | None = None
    """The time at which the record was found to be unreadable. Until it is written anew, no device of the pool is given
    away."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def document(self, namespace: str, writer: str, intents: Iterable[Intent], seen: int) -> Object:
        self.serial += 1
        metadata: Object = {"namespace": namespace, "name": record_name(self.pool), "labels": {LABEL: "devices"}}
        if self.version:
            metadata["resourceVersion"] = self.version
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {
                "driver": self.pool[0],
                "pool": self.pool[1],
                "seen": str(seen),
                "intents": _encode(list(intents)).decode(),
                "written": self.written(writer),
            },
        }

    def written(self, writer: str) -> str:
        """Returns the mark that distinguishes our last write from writes of others."""
        return f"{writer}/{self.serial}"

    def take(self, document: Object) -> None:
        """Reads the record after another scheduler wrote it."""
        self.version, self.seen, self.intents = read(document)
        self.epoch += 1
        self.unreadable_since = None

    def took(self, document: Object) -> None:
        """Reads the record after our own write."""
        self.version, self.seen, self.intents = read(document)

    def spoil(self, version: str, now: float) -> None:
        """Notes that the record is unreadable at that version."""
        self.version, self.intents = version, ()
        self.epoch += 1
        self.unreadable_since = now


class UnreadableRecord(Exception):
    """A record is not as schedulers of dray write it: somebody else has changed it."""


def read(document: Object) -> tuple[str, int, tuple[Intent, ...]]:
    """Returns version, seen and intents of a record. Raises UnreadableRecord."""
    data = mapping(document.get("data"))
    try:
        seen = number(data.get("seen") or "0")
        intents = tuple(_decode(data.get("intents") or "[]"))
        for intent in intents:
            number(intent.base)
            _check(intent, pool_of(document))
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise UnreadableRecord(str(error)) from error
    return document["metadata"]["resourceVersion"], seen, intents


def _check(intent: Intent, pool: PoolKey) -> None:
    for result in intent.results:
        if (result.get("driver"), result.get("pool")) != pool or not isinstance(result.get("device"), str):
            raise ValueError(f"an intent for {intent.namespace}/{intent.name} has devices that are not of the pool")


def pool_of(document: Object) -> PoolKey:
    data = mapping(document.get("data"))
    return str(data.get("driver") or ""), str(data.get("pool") or "")


def record_name(pool: PoolKey) -> str:
    return "dray-ledger-" + sha256("/".join(pool).encode()).hexdigest()[:32]


def number(version: str) -> int:
    """Resource versions of one kind are compared as numbers. Raises ValueError."""
    if not (isinstance(version, str) and version.isascii() and version.isdecimal() and len(version) <= _MOST_DIGITS):
        raise ValueError(f"{str(version)[:40]!r} is not a resource version")
    return int(version)


@dataclass(eq=False, slots=True)
class RecordCleaning:
    client: ApiClient
    state: State
    resource: Resource
    namespace: str
    _vacant: dict[PoolKey, float] = field(init=False, default_factory=dict)
    """Since when pools are neither published nor in use."""

    async def clear(
        self, records: Iterable[PoolIntents], *, now: float, position: int, is_over: Callable[[Intent], bool]
    ) -> list[PoolKey]:
        """Deletes what may go; gives the pools of which nothing has been left for a while."""
        used = {device[:2] for device in self.state.inventory.usage.devices}
        due, over = [], []
        for record in records:
            if record.pool in used or self.state.inventory.has_pool(record.pool):
                self._vacant.pop(record.pool, None)
            elif now - self._vacant.setdefault(record.pool, now) < WHILE:
                continue
            elif not record.version:
                over.append(record.pool)
            elif record.seen <= position and all(is_over(intent) for intent in record.intents):
                due.append((record.pool, record.version))
        for pool, version in due[:_BATCH]:
            await self._delete(pool, version)
            # What is left of it is forgotten later: a decision may still refer to it.
            self._vacant[pool] = now
        for pool in over:
            del self._vacant[pool]
        return over

    async def _delete(self, pool: PoolKey, version: str) -> None:
        options = DeleteOptions(resource_version=version)
        try:
            with suppress(NotFound, Conflict):
                await self.client.delete(self.resource, record_name(pool), namespace=self.namespace, options=options)
        except ApiError as error:
            _logger.warning("the record of %s/%s cannot be deleted: %s", *pool, error)
        except ClientError as error:
            _logger.debug("the record of %s/%s is deleted later: %s", *pool, error)
