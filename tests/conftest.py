"""The event loops of asynchronous tests: a test fails after a while instead of hanging, or runs in virtual time.

Property tests try the same examples each time, however slow the machine; `--hypothesis-profile=random` tries others.
Processes keep what they compiled: hundreds are started, and to compile dray takes each of them a second.
"""

import asyncio
import functools
import inspect
import os
import random
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from dray.client import events
from tests.virtual_time import VirtualLoop, VirtualTime

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Clusters of tests are not those that the commands of the user find.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="dray-state-")
sys.dont_write_bytecode = False
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", _ANY_SPEED)
settings.register_profile("repeatable", _ANY_SPEED, derandomize=True)
settings.load_profile("repeatable")

LONGEST = 120
"""Seconds, where no mark says otherwise."""


@pytest.fixture
def virtual_time(monkeypatch):
    """Lets the test run in a loop that need not wait; gives the time of day there. No real clock and no chance is left
    in it: with the same hash seed it goes the same way each time."""
    monkeypatch.setattr(events, "monotonic", lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr(events, "process_time", lambda: 0.0)
    before = random.getstate()
    random.seed(0)
    yield VirtualTime()
    random.setstate(before)


def pytest_asyncio_loop_factories(item):
    return {"loop": VirtualLoop if "virtual_time" in item.fixturenames else asyncio.new_event_loop}


def pytest_itemcollected(item):
    # Virtual time ends by itself where everybody waits.
    limit = item.get_closest_marker("time_limit")
    if inspect.iscoroutinefunction(getattr(item, "obj", None)) and "virtual_time" not in item.fixturenames:
        item.obj = _ending(item.obj, limit.args[0] if limit else LONGEST)


def _ending(test, seconds):
    @functools.wraps(test)
    async def run(*args, **kwargs):
        async with asyncio.timeout(seconds):
            await test(*args, **kwargs)

    return run
