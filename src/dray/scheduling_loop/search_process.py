"""The process of one search for devices: the question comes in as JSON, the answer goes out as JSON."""

from __future__ import annotations

import os
import sys

import msgspec

from dray.allocation import POLICIES, Allocation, Inventory, Work, allocate
from dray.api.gates import FeatureGates
from dray.api.objects import Object
from dray.process.parent import die_with_parent


def answer(question: Object) -> Object:
    inventory = Inventory.restored(question["snapshot"], FeatureGates(frozenset(question["gates"])))
    found = allocate(
        inventory,
        question["node"],
        question["claims"],
        policy=POLICIES[question["policy"]],
        work=Work(question["limit"]),
        explain=False,
    )
    told: Object = {"work": found.work, "columns": inventory.columns()}
    if isinstance(found, Allocation):
        return {**told, "kind": "allocated", "results": list(found.results)}
    return {**told, "kind": found.kind.value, "message": found.message}


def main() -> None:
    """The argument is the id of the process that asks: without it nobody waits for the answer."""
    die_with_parent(int(sys.argv[1]))
    # Whoever waits for this has time; the scheduler and the API server have not.
    os.nice(10)
    sys.stdout.buffer.write(msgspec.json.encode(answer(msgspec.json.decode(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
