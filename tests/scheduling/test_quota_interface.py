"""What keeps queue systems apart from the scheduler: a small interface, and lists that alone name them."""

import re
from pathlib import Path

import dray
from dray.scheduling.quota.queue_policy import Evictions, NodeFlavors, QueueOrder, QueuePolicy

ROOT = Path(dray.__file__).parent
SYSTEMS = re.compile(r"kueue|kai[^a-z]", re.IGNORECASE)
LISTS = ("scheduling/quota/systems.py", "scheduling/groups/front_ends.py")
OWN = ("scheduling/quota/kueue", "scheduling/quota/kai", "scheduling/groups/kueue.py", "scheduling/groups/kai.py")
OWN_OF_LOOP = ("scheduling_loop/queue_systems",)


def members(protocol):
    return [name for name in {**vars(protocol), **protocol.__annotations__} if not name.startswith("_")]


def test_a_queue_system_implements_at_most_12_members():
    assert len(members(QueuePolicy)) <= 12
    assert all(len(members(each)) <= 12 for each in (Evictions, NodeFlavors, QueueOrder))
    assert all(vars(QueuePolicy)[name].__doc__ for name in members(QueuePolicy) if callable(vars(QueuePolicy)[name]))


def test_queue_systems_are_named_only_where_they_are_listed():
    allowed = (*LISTS, *OWN, *OWN_OF_LOOP, "scheduling/groups/jobs.py")
    naming = [
        path.relative_to(ROOT).as_posix()
        for room in ("scheduling", "scheduling_loop")
        for path in (ROOT / room).rglob("*.py")
        if SYSTEMS.search(path.read_text())
    ]
    assert not [each for each in naming if not each.startswith(allowed)]
