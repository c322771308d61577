"""What schedulers write down before they give devices away: a page for each pool, as it is stored and known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import msgspec

from dray.api.objects import Key, Object

LABEL: Final = "dray.dev/ledger"
PoolKey = tuple[str, str]
"""Driver, pool."""


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """That a writer may write these devices into a claim, on top of one version of it."""

    id: str
    """No other intent has it."""
    writer: str
    uid: str
    namespace: str
    name: str
    base: str
    """The claim's resource version. Once it has another, this can no longer be written."""
    results: list[dict[str, Any]]

    @property
    def claim(self) -> Key:
        return self.namespace, self.name

    @property
    def hold(self) -> Key:
        """Under which its devices are held; no claim has such a key."""
        return "", f"intent/{self.id}"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Intent]).decode


@dataclass(slots=True)
class Page:
    """The intents of one pool, with the version they were read at."""

    pool: PoolKey
    version: str = ""
    """Empty while there is none."""
    seen: int = 0
    """Whoever gives devices away must know the claims up to this resource version: intents that were carried out by
    then are no longer listed."""
    intents: tuple[Intent, ...] = ()
    epoch: int = 0
    """Changes whenever somebody else changed the page."""
    serial: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def document(self, namespace: str, writer: str, intents: Iterable[Intent], seen: int) -> Object:
        self.serial += 1
        metadata: Object = {"namespace": namespace, "name": page_name(self.pool), "labels": {LABEL: "devices"}}
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
        """Tells our last write from those of others."""
        return f"{writer}/{self.serial}"

    def take(self, document: Object) -> None:
        """As somebody else left it."""
        self.version, self.seen, self.intents = read(document)
        self.epoch += 1

    def took(self, document: Object) -> None:
        """As we wrote it."""
        self.version, self.seen, self.intents = read(document)


def read(document: Object) -> tuple[str, int, tuple[Intent, ...]]:
    data = document.get("data") or {}
    intents = tuple(_decode(data.get("intents") or "[]"))
    return document["metadata"]["resourceVersion"], number(data.get("seen") or "0"), intents


def pool_of(document: Object) -> PoolKey:
    data = document.get("data") or {}
    return str(data.get("driver") or ""), str(data.get("pool") or "")


def page_name(pool: PoolKey) -> str:
    return "dray-ledger-" + sha256("/".join(pool).encode()).hexdigest()[:32]


def number(version: str) -> int:
    """Resource versions of one kind are compared as numbers."""
    return int(version)
