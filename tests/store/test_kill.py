"""kill -9 in the midst of 16 writers, over and over on the same files. DRAY_KILL_ROUNDS sets how often."""

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from dray.store.interface import EventType
from dray.store.sqlite import SqliteStore

from .stores import crash, drain

ROUNDS = int(os.environ.get("DRAY_KILL_ROUNDS", "10"))
WRITERS = Path(__file__).parent / "writers.py"


def run_and_kill(directory, rng, seed, upto):
    """The lines a child printed before it was killed, at most 80 ms into its work."""
    child = subprocess.Popen([sys.executable, WRITERS, directory, str(seed), str(upto)], stdout=subprocess.PIPE)
    output, end = b"", None
    while end is None or time.monotonic() < end:
        timeout = 10 if end is None else max(0, end - time.monotonic())
        if select.select([child.stdout], [], [], timeout)[0]:
            piece = os.read(child.stdout.fileno(), 1 << 20)
            assert piece, "the writers ended by themselves"
            output += piece
        if end is None and output:
            end = time.monotonic() + rng.uniform(0, 0.08)
    child.send_signal(signal.SIGKILL)
    output += child.stdout.read()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    # The last line may be cut off.
    return [line.split(" ") for line in output.decode().split("\n")[:-1]]


class Ledger:
    """Everything that was ever promised, acknowledged and seen."""

    def __init__(self):
        self.promised = {}
        self.events = {}
        self.position = 0
        self.acknowledged = 0

    def take(self, lines):
        """What must be in the store after these lines."""
        durable = set()
        for verb, revision, *rest in lines:
            number = int(revision)
            if verb == "P":
                assert number not in self.promised, f"revision {number} was given out twice"
                self.promised[number] = tuple(rest)
            elif verb in "AW":
                durable.add(number)
                self.acknowledged += verb == "A"
        return durable

    async def resume(self, store, rng):
        """Reads on from where the last watch ended."""
        watch = store.watch("/", after=self.position)
        for event in await drain(watch):
            record = event.record
            assert record.revision > self.position, "an event came twice"
            assert self.promised[record.revision] == (record.key, record.value.decode())
            self.events[record.revision] = event
            self.position = record.revision
        # Either the last event or a bookmark behind it.
        self.position = rng.choice((self.position, watch.revision))

    def replayed(self):
        state = {}
        for event in self.events.values():
            if event.type is EventType.DELETED:
                del state[event.record.key]
            else:
                assert (event.type is EventType.MODIFIED) == (event.record.key in state)
                state[event.record.key] = event.record
        return state


async def verify(directory, ledger, durable, rng):
    store = SqliteStore(Path(directory))
    await ledger.resume(store, rng)
    assert durable <= set(ledger.events), "an acknowledged write is gone"
    assert ledger.replayed() == {record.key: record for record in store.list("/").records}
    assert store.revision > max(ledger.promised)
    if rng.random() < 0.5:
        await store.close()
    else:
        crash(store)


def test_nothing_acknowledged_is_lost(tmp_path):
    seed = random.randrange(10**6)
    rng, ledger = random.Random(seed), Ledger()
    for number in range(ROUNDS):
        durable = ledger.take(run_and_kill(str(tmp_path), rng, seed + number, ledger.position))
        asyncio.run(verify(tmp_path, ledger, durable, rng))
    assert ledger.acknowledged > ROUNDS
