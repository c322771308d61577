"""IntentLog: keeps schedulers that work at the same time from giving one device to two claims.

The API server locks a claim, not a device. So before a scheduler writes an allocation it enters an intent on the record
of the device's pool, a ConfigMap, by compare-and-swap. Intents of others count as holds. Why no device is given twice:

1. Each allocation follows an intent, and the intents of a pool are in one order, that of its versions. Take two
   claims that hold one device; the intent of c2 was entered after that of c1.
2. It was entered on top of the very version that its writer knew when it decided (others' changes since then make it
   fail). If c1's intent was on it, the writer held the device for c1, unless it had seen c1 at a later version than the
   intent names; then c1 is either known to hold the device, or it cannot come to by that intent.
3. If c1's intent was no longer on it, somebody had seen c1 at a later version, and noted that version on the record as
   `seen`. The writer of c2 does not decide before its watch of claims has come that far, and so knew of c1 as in 2.
4. An allocation is written only on top of the version that its intent names, once or not at all, so an intent is over
   when its claim has another version. No clock takes part in that. If a writer died, its intent is brought to an end by
   changing the claim (`_fence`), after a while in which a living one would have written.

5. A record is deleted only when no claim holds a device of its pool and none can come to (`RecordCleaning`): what a new
   one would have to know of came after it, by intents on the new one.
6. A record that somebody else made unreadable, or whose `seen` no claim has reached, is written anew, after a while in
   which every writer whose intent was on it has written its claim or given up. Until then nothing is given away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, key_of, mapping, metadata_of
from dray.api.resource_claims import allocation_results
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from dray.client.informer import Informer
from dray.client.interface import Selection
from dray.scheduling.core.state import State
from dray.scheduling.model.actions import Bind
from dray.scheduling_loop.claim_writes import Lost
from dray.scheduling_loop.feed import CLAIMS
from dray.scheduling_loop.pool_intents import (
    LABEL,
    Intent,
    PoolIntents,
    PoolKey,
    RecordCleaning,
    UnreadableRecord,
    number,
    pool_of,
    record_name,
)

FENCE: Final = "dray.dev/fenced"
PATIENCE: Final = 60.0
"""Seconds that a writer has before its intents are brought to an end."""
_LOOK: Final = 1.0
_CLEARING: Final = 60.0
_logger = logging.getLogger("dray.scheduler")

_CONFIG_MAPS: Final = built_in("v1", "ConfigMap")


@dataclass(slots=True)
class Transaction:
    """The epochs of the pools when a decision was made, and the intents of the decision."""

    epochs: dict[PoolKey, int]
    intents: list[tuple[PoolKey, Intent]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Held:
    intent: Intent
    since: float


class IntentLog:
    """The intent log. `claims` is the informer of the scheduler's state; `identity` must be new each time."""

    def __init__(
        self,
        client: ApiClient,
        state: State,
        claims: Informer,
        *,
        namespace: str,
        identity: str,
        patience: float = PATIENCE,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._state = state
        self._claims = claims
        self._old = RecordCleaning(client, state, _CONFIG_MAPS, namespace)
        self._informer = Informer(client, _CONFIG_MAPS, namespace=namespace, selection=Selection(labels=LABEL))
        self._namespace = namespace
        self._identity = identity
        self._patience = patience
        self._changed = changed
        self._records: dict[PoolKey, PoolIntents] = {}
        self._active: set[str] = set()
        """Our own intents that are being carried out, by id."""
        self._entered = 0
        self._held: dict[PoolKey, dict[str, _Held]] = {}
        """Others' intents that may yet be carried out, by id."""
        self._by_claim: dict[str, set[PoolKey]] = {}
        self._void: set[str] = set()
        """Ids of intents that cannot be carried out, as the server said when it was asked for their claims."""
        self._strays: dict[str, str] = {}
        """Versions of ConfigMaps that have our label but are not records, by name."""
        self._untidy: set[PoolKey] = set()
        self._next_clearing = 0.0
        self._informer.add_handler(self._record_changed)
        claims.add_handler(self._claim_changed)

    async def run(self) -> None:
        """Follows the records until it is cancelled. Withdraws own intents that were not carried out, and ends intents
        of schedulers that died."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            await self._informer.synced()
            while True:
                await asyncio.sleep(min(_LOOK, self._patience / 4))
                await self._tidy()
                await self._fence_late()
                await self._repair()
                await self._clear()

    async def synced(self) -> None:
        await self._informer.synced()

    # Entering

    def begin(self, action: Bind) -> Transaction:
        """Begins a transaction. It must be called right after the decision, before any other event is handled."""
        position = number(self._claims.resource_version or "0")
        epochs = {}
        for write in action.writes:
            for pool in _by_pool(write.allocation or {}):
                record = self._record(pool)
                is_current = record.seen <= position and record.unreadable_since is None
                epochs[pool] = record.epoch if is_current else -1
        return Transaction(epochs)

    async def enter(self, transaction: Transaction, allocations: Iterable[tuple[Object, Object]]) -> None:
        """Enters the intents to allocate the claims in their current versions. Raises Lost or ClientError."""
        intents: dict[PoolKey, list[Intent]] = {}
        for claim, allocation in allocations:
            for pool, results in _by_pool(allocation).items():
                intents.setdefault(pool, []).append(self._intent(claim, results))
        for pool in sorted(intents):
            record = self._record(pool)
            async with record.lock:
                if record.epoch != transaction.epochs[pool]:
                    raise Lost(f"another scheduler is giving away devices of {'/'.join(pool)}")
                transaction.intents += [(pool, intent) for intent in intents[pool]]
                await self._write(record, intents[pool])

    def finish(self, transaction: Transaction) -> None:
        """Ends a transaction, after the decision was carried out or failed."""
        for pool, intent in transaction.intents:
            self._active.discard(intent.id)
            if not self._is_over(intent):
                self._untidy.add(pool)

    def _intent(self, claim: Object, results: list[Object]) -> Intent:
        self._entered += 1
        metadata = claim["metadata"]
        where = (metadata["uid"], metadata["namespace"], metadata["name"], metadata["resourceVersion"])
        return Intent(f"{self._identity}/{self._entered}", self._identity, *where, results)

    async def _write(self, record: PoolIntents, more: Sequence[Intent]) -> None:
        kept, seen = [], record.seen
        for intent in record.intents:
            own = intent.writer == self._identity
            if intent.id in self._active or not (own or self._is_over(intent)):
                kept.append(intent)
            elif (claim := self._state.claims.get(intent.claim)) is not None:
                seen = max(seen, number(claim["metadata"]["resourceVersion"]))
        self._active.update(intent.id for intent in more)
        document = record.document(self._namespace, self._identity, [*kept, *more], seen)
        write = self._client.update if record.version else self._client.create
        try:
            answer = await write(_CONFIG_MAPS, document)
        except (Conflict, AlreadyExists, NotFound) as error:
            raise Lost(f"another scheduler changed the devices of {'/'.join(record.pool)}") from error
        if number(answer["metadata"]["resourceVersion"]) > number(record.version or "0"):
            record.took(answer)

    # Following

    def _record(self, pool: PoolKey) -> PoolIntents:
        record = self._records.get(pool)
        if record is None:
            record = self._records[pool] = PoolIntents(pool)
            if version := self._strays.get(record_name(pool)):
                self._spoil(record, version, "it names another pool")
        return record

    def _record_changed(self, change: Change) -> None:
        document = change.object
        if key_of(document)[1] != record_name(pool_of(document)):
            self._stray(document, change.type)
            return
        record = self._record(pool_of(document))
        if change.type == "DELETED":
            # What it had seen still holds.
            record.version, record.intents, record.epoch = "", (), record.epoch + 1
        elif number(document["metadata"]["resourceVersion"]) <= number(record.version or "0"):
            return
        else:
            self._read(record, document)
        self._hold(record)
        self._changed()

    def _read(self, record: PoolIntents, document: Object) -> None:
        try:
            if mapping(document.get("data")).get("written") == record.written(self._identity):
                # The watch was faster than the answer.
                record.took(document)
            else:
                record.take(document)
        except UnreadableRecord as error:
            self._spoil(record, document["metadata"]["resourceVersion"], str(error))

    def _stray(self, document: Object, change: str) -> None:
        """A ConfigMap with our label that is no record: its name and the pool that it names do not go together."""
        name, version = key_of(document)[1], document["metadata"]["resourceVersion"]
        if change == "DELETED":
            self._strays.pop(name, None)
            for record in self._named(name):
                record.version, record.epoch = "", record.epoch + 1
            return
        if name not in self._strays:
            _logger.warning("ConfigMap %s/%s is ignored: it is not the record of a pool", self._namespace, name)
        self._strays[name] = version
        for record in self._named(name):
            self._spoil(record, version, "it names another pool")
            self._hold(record)

    def _named(self, name: str) -> list[PoolIntents]:
        """The records that a ConfigMap of that name is the place of: one at most."""
        return [record for record in self._records.values() if record_name(record.pool) == name]

    def _spoil(self, record: PoolIntents, version: str, why: str) -> None:
        record.spoil(version, asyncio.get_running_loop().time())
        _logger.warning(
            "the record of %s/%s (ConfigMap %s/%s) cannot be used: %s; it is written anew, and devices of the pool are "
            "given away again, in %g s",
            *record.pool,
            self._namespace,
            record_name(record.pool),
            why[:200],
            self._patience,
        )

    def _claim_changed(self, change: Change) -> None:
        for pool in tuple(self._by_claim.get(change.object["metadata"]["uid"], ())):
            self._hold(self._records[pool])

    def _hold(self, record: PoolIntents) -> None:
        """Holds what others may come to hold, and no more."""
        now = asyncio.get_running_loop().time()
        before = self._held.get(record.pool, {})
        others = [each for each in record.intents if each.writer != self._identity and not self._is_over(each)]
        held = {each.id: before.get(each.id) or _Held(each, now) for each in others}
        for key in before.keys() - held.keys():
            intent = before[key].intent
            self._by_claim.get(intent.uid, set()).discard(record.pool)
            self._state.release(intent.hold, helps=True)
        for key in held.keys() - before.keys():
            intent = held[key].intent
            self._by_claim.setdefault(intent.uid, set()).add(record.pool)
            try:
                self._state.hold(intent.hold, intent.results)
            except Exception as error:
                # Whatever it means to hold, nobody can have written it.
                del held[key]
                self._void.add(intent.id)
                _logger.warning("an intent for ResourceClaim %s/%s cannot be held: %s", *intent.claim, error)
        self._held[record.pool] = held

    def _is_over(self, intent: Intent) -> bool:
        """Whether the claim has come past the version that is named, so that it holds what it holds without this."""
        if intent.id in self._void or self._state.claims.is_gone(intent.uid):
            return True
        claim = self._state.claims.get(intent.claim)
        if claim is None or claim["metadata"]["uid"] != intent.uid:
            # It may be so new that it was not seen yet.
            return False
        return number(claim["metadata"]["resourceVersion"]) > number(intent.base)

    # Cleaning up

    async def _tidy(self) -> None:
        """Takes back intents of ours that were not carried out."""
        for pool in tuple(self._untidy):
            record = self._record(pool)
            async with record.lock:
                try:
                    await self._write(record, ())
                except ClientError as error:
                    _logger.debug("the record of %s/%s stays as it is for now: %s", *pool, error)
                else:
                    self._untidy.discard(pool)

    async def _repair(self) -> None:
        """Writes records anew that somebody made unreadable, once every intent that was on them has come to an end."""
        late = asyncio.get_running_loop().time() - self._patience
        for record in tuple(self._records.values()):
            await self._check_seen(record)
            if record.unreadable_since is None or record.unreadable_since > late:
                continue
            async with record.lock:
                try:
                    record.seen = number(self._claims.resource_version or "0")
                    await self._write(record, ())
                except ClientError as error:
                    _logger.debug("the record of %s/%s is written anew later: %s", *record.pool, error)
                else:
                    record.unreadable_since = None
                    self._strays.pop(record_name(record.pool), None)
                    self._changed()

    async def _check_seen(self, record: PoolIntents) -> None:
        """A record cannot have seen a version that the server has not come to."""
        position = number(self._claims.resource_version or "0")
        if record.seen <= position or record.unreadable_since is not None:
            return
        try:
            listed = await self._client.list(CLAIMS, limit=1)
            known = number(str(metadata_of(listed).get("resourceVersion") or ""))
        except (ClientError, ValueError):
            return
        if record.seen > known:
            self._spoil(record, record.version, f"it has seen version {record.seen}, the server is at {known}")

    async def _clear(self) -> None:
        """Deletes records of pools that are gone."""
        now = asyncio.get_running_loop().time()
        if now < self._next_clearing:
            return
        self._next_clearing = now + _CLEARING
        position = number(self._claims.resource_version or "0")
        records = [record for record in self._records.values() if not self._held.get(record.pool)]
        for pool in await self._old.clear(records, now=now, position=position, is_over=self._is_over):
            self._records.pop(pool, None)
            self._held.pop(pool, None)

    async def _fence_late(self) -> None:
        late = asyncio.get_running_loop().time() - self._patience
        for pool, intents in tuple(self._held.items()):
            for held in tuple(intents.values()):
                if held.since <= late:
                    try:
                        await self._fence(held.intent)
                    except ClientError as error:
                        _logger.debug("ResourceClaim %s/%s cannot be fenced yet: %s", *held.intent.claim, error)
            if any(held.since <= late for held in intents.values()):
                self._hold(self._record(pool))
                self._changed()

    async def _fence(self, intent: Intent) -> None:
        """Changes the claim, so that a write that is still on its way, or was never sent, cannot come to pass."""
        namespace, name = intent.claim
        try:
            claim = await self._client.get(CLAIMS, name, namespace=namespace)
        except NotFound:
            claim = {"metadata": {}}
        version = claim["metadata"].get("resourceVersion")
        if claim["metadata"].get("uid") != intent.uid or number(version) < number(intent.base):
            # Nobody reads a version of a claim that there has not been yet.
            self._void.add(intent.id)
        elif version == intent.base:
            _logger.info(
                "ResourceClaim %s/%s: %s did not give it the devices it meant to", namespace, name, intent.writer
            )
            metadata = {"uid": intent.uid, "resourceVersion": intent.base, "annotations": {FENCE: intent.id}}
            await self._client.patch(CLAIMS, name, {"metadata": metadata}, namespace=namespace)


def _by_pool(allocation: Object) -> dict[PoolKey, list[Object]]:
    """The results that hold something."""
    found: dict[PoolKey, list[Object]] = {}
    for result in allocation_results(allocation):
        if not result.get("adminAccess"):
            found.setdefault((result["driver"], result["pool"]), []).append(result)
    return found
