"""A process to be killed: writers at work on a store, telling what they were promised, what was done and what was seen.

Lines: `P revision key value` when a revision is given to a write, `A revision` when it is acknowledged, `W revision`
when a watcher sees it, `C revision` when a compaction is over.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from dray.store.interface import StoreError
from dray.store.sqlite import SqliteStore


def tell(line):
    os.write(1, line.encode() + b"\n")


async def write(store, rng, writer):
    count = 0
    while True:
        key = f"/g/p/{rng.randrange(40)}"
        count += 1
        value = f"{os.getpid()}-{writer}-{count}-{'x' * rng.choice((0, 100, 5000))}"

        def encode(revision, key=key, value=value):
            tell(f"P {revision} {key} {value}")
            return value.encode()

        verb = rng.choice(("create", "update", "update", "delete"))
        try:
            if verb == "delete":
                record = await store.delete(key, encode=encode)
            else:
                record = await getattr(store, verb)(key, encode)
        except StoreError:
            await asyncio.sleep(0)
            continue
        tell(f"A {record.revision}")


async def compact(store, upto):
    while True:
        await asyncio.sleep(0.002)
        await store.compact(upto)
        tell(f"C {upto}")


async def watch(store):
    async for event in store.watch("/", after=store.revision):
        tell(f"W {event.record.revision}")


async def main(directory, seed, upto):
    store = SqliteStore(Path(directory))
    tell(f"S {store.revision}")
    rng = random.Random(seed)
    await asyncio.gather(watch(store), compact(store, upto), *(write(store, rng, number) for number in range(16)))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
