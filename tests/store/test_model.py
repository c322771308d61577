"""Random histories: both stores must answer every question as the model does, also across restarts and failures."""

import asyncio
import os
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dray.store.memory import MemoryStore
from dray.store.sqlite import NotDurable, SqliteStore

from .model import Model
from .stores import crash, drain, text

KEYS = st.sampled_from([f"/g/{plural}/{name}" for plural in ("p", "pp", "q") for name in "abc"])
PREFIXES = st.sampled_from(["/", "/g/p", "/g/p/", "/g/pp/", "/g/q/b", "/none/"])
WRITES = st.tuples(st.sampled_from(["create", "update", "delete"]), KEYS, st.integers(0, 9), st.integers(0, 3))
# In memory, if possible: what the crash of a process leaves there is what it leaves on a disk, and nothing waits.
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# Chooses a revision relative to the newest, so that it is usually one that is kept.
AGES = st.integers(-2, 12)


class Histories(RuleBasedStateMachine):
    durable = False

    def __init__(self):
        super().__init__()
        self.model = Model()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory(dir=PLACE)
        self.watches = []

    @initialize()
    def start(self):
        self.store = self.opened()

    def opened(self):
        path = Path(self.directory.name)
        return SqliteStore(path, buffer=10_000) if self.durable else MemoryStore(buffer=10_000)

    def teardown(self):
        self.run(self.store.close())
        self.runner.close()
        self.directory.cleanup()

    def run(self, coroutine):
        return self.runner.run(coroutine)

    def begin(self, write):
        """Starts a write in the store and in the model; gives what to expect of it."""
        verb, key, value, age = write
        current = self.model.state().get(key)
        # The right revision, none, or one that is off.
        expect = {0: 0, 1: 0, 2: current[2] if current else 7, 3: (current[2] if current else 7) + 1}[age]
        arguments = {} if verb == "create" else {"expect": expect}
        if verb == "delete":
            started = self.store.delete(key, encode=text(value), **arguments)
        else:
            started = getattr(self.store, verb)(key, text(value), **arguments)
        return started, self.model.write(verb, key, value, expect)

    @rule(writes=st.lists(WRITES, min_size=1, max_size=5))
    def write(self, writes):
        async def together():
            started = [self.begin(write) for write in writes]
            results = await asyncio.gather(*(each for each, _ in started), return_exceptions=True)
            for result, (_, refused) in zip(results, started, strict=True):
                assert type(result) is refused if refused else not isinstance(result, Exception), result

        self.run(together())

    @rule(prefix=PREFIXES, limit=st.integers(0, 3), age=AGES)
    def read_pages(self, prefix, limit, age):
        revision = max(1, self.model.revision - age)
        refused = self.model.refusal(revision)
        if refused:
            with pytest.raises(refused):
                self.store.list(prefix, limit=limit, revision=revision)
            return
        after, seen = "", []
        while True:
            page = self.store.list(prefix, limit=limit, after=after, revision=revision)
            records = [(each.key, each.value, each.created, each.revision) for each in page.records]
            assert (records, page.remaining) == self.model.page(prefix, limit, after, revision)
            assert page.revision == revision
            seen += records
            if not page.remaining:
                break
            after = page.records[-1].key
        assert len(seen) == len(self.model.page(prefix, 0, "", revision)[0])

    @rule(prefix=PREFIXES, age=AGES)
    def begin_watch(self, prefix, age):
        after = max(0, self.model.revision - age)
        refused = self.model.refusal(after)
        if refused:
            with pytest.raises(refused):
                self.store.watch(prefix, after=after)
        else:
            self.watches.append((prefix, after, self.store.watch(prefix, after=after), []))

    @rule()
    def read_watches(self):
        for prefix, after, watch, seen in self.watches:
            for event in self.run(drain(watch)):
                record = event.record
                seen.append((record.revision, event.type, record.key, record.value, record.created))
                before = self.model.state(record.revision - 1).get(record.key)
                previous = event.previous and (event.previous.value, event.previous.created, event.previous.revision)
                assert previous == before
            assert seen == self.model.watched(prefix, after)
            assert watch.revision == self.model.revision

    @rule(age=AGES)
    def compact(self, age):
        revision = max(0, self.model.revision - age)
        self.run(self.store.compact(revision))
        self.model.compacted = max(self.model.compacted, min(revision, self.model.revision))

    @invariant()
    def the_present_is_the_same(self):
        if not hasattr(self, "store"):
            return
        assert self.store.revision == self.model.revision
        records = self.store.list("/").records
        state = {each.key: (each.value, each.created, each.revision) for each in records}
        assert list(state) == sorted(state)
        assert state == self.model.state()
        assert all(self.store.get(each.key) is each for each in records)


class DurableHistories(Histories):
    durable = True

    @rule(writes=st.lists(WRITES, min_size=1, max_size=4))
    def fail_to_commit(self, writes):
        def fail(*arguments):
            raise sqlite3.OperationalError("disk I/O error")

        async def together():
            before = self.model.revision
            started = [self.begin(write) for write in writes]
            append, self.store._journal.append = self.store._journal.append, fail
            results = await asyncio.gather(*(each for each, _ in started), return_exceptions=True)
            self.store._journal.append = append
            for result, (_, refused) in zip(results, started, strict=True):
                assert type(result) is (refused or NotDurable), result
            lost = self.model.revision - before
            if lost:
                self.model.lose(lost, self.model.revision + 1)

        self.run(together())

    @rule()
    def restart(self):
        self.run(self.store.close())
        self.reopen()

    @rule(writes=st.lists(WRITES, max_size=3))
    @precondition(lambda self: self.model.revision < 10**6)
    def crash(self, writes):
        async def unfinished():
            before = self.model.revision
            tasks = [asyncio.ensure_future(self.begin(write)[0]) for write in writes]
            await asyncio.sleep(0)
            crash(self.store)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return self.model.revision - before

        lost = self.run(unfinished())
        self.reopen()
        assert self.store.revision > self.model.revision
        self.model.lose(lost, self.store.revision)

    def reopen(self):
        self.watches.clear()
        self.store = self.opened()


SETTINGS = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("histories", [Histories, DurableHistories])
def test_histories(histories):
    run_state_machine_as_test(histories, settings=SETTINGS)
