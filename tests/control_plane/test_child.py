"""The control plane in a process of its own is started again when it ends, and ends with its parent."""

import asyncio
import os
import signal

import pytest

from dray.client.retries import Backoff
from dray.control_plane import child as child_module
from dray.control_plane.child import Child, Refused
from dray.testing.cluster import LocalCluster

READY = "import sys, socket; end = socket.socket(fileno=int(sys.argv[1])); print('{\"ready\": true}', flush=True);"


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(child_module, "_BACKOFF", Backoff(first=0.01, longest=0.05))


async def until(question):
    """Before the time of the test is over; processes start slowly on a busy machine."""
    while not question():
        await asyncio.sleep(0.02)


async def test_it_is_started_again_when_it_is_killed(monkeypatch):
    # The pause before the next start is as long as it can be, so that the problem is seen.
    monkeypatch.setattr(child_module.random, "random", lambda: 0.0)
    async with LocalCluster() as cluster:
        child = Child(("-c", READY + "end.recv(1)"), b"")
        running = asyncio.create_task(child.run(cluster.client._transport))
        await until(lambda: not child.problems()["control-plane"])
        first = child.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.restarts == 1)
        assert child.problems() == {"control-plane": f"ended with status -{signal.SIGKILL:d}"}
        await until(lambda: not child.problems()["control-plane"])
        assert child.pid != first
        await child.stop()
        await running


async def test_a_child_that_was_ready_is_restarted_soon_however_often_it_is_killed(monkeypatch):
    monkeypatch.setattr(child_module, "_BACKOFF", Backoff(first=1000.0, longest=1000.0))
    monkeypatch.setattr(child_module, "_LONGEST_AFTER_WORK", 0.02)
    async with LocalCluster() as cluster:
        child = Child(("-c", READY + "end.recv(1)"), b"")
        running = asyncio.create_task(child.run(cluster.client._transport))
        for count in range(3):
            await until(lambda: not child.problems()["control-plane"])
            os.kill(child.pid, signal.SIGKILL)
            await until(lambda count=count: child.restarts == count + 1)
        await until(lambda: not child.problems()["control-plane"])
        await child.stop()
        await running


async def test_it_knows_of_the_parts_of_the_child():
    async with LocalCluster() as cluster:
        said = 'print(\'{"parts": {"job": "ZeroDivisionError", "scheduler": ""}}\', flush=True);'
        child = Child(("-c", READY + said + "end.recv(1)"), b"")
        running = asyncio.create_task(child.run(cluster.client._transport))
        await until(lambda: "job" in child.problems())
        assert child.problems() == {"control-plane": "", "job": "ZeroDivisionError", "scheduler": ""}
        await child.stop()
        await running


async def test_what_it_cannot_do_is_not_tried_again():
    async with LocalCluster() as cluster:
        child = Child(("-c", 'print(\'{"refused": "no such port"}\')'), b"")
        with pytest.raises(Refused, match="no such port"):
            await child.run(cluster.client._transport)


async def test_it_gets_its_orders():
    async with LocalCluster() as cluster:
        child = Child(("-c", 'import sys; print(\'{"refused": "%s"}\' % sys.stdin.read())'), b"orders")
        with pytest.raises(Refused, match="orders"):
            await child.run(cluster.client._transport)


async def test_one_that_does_not_listen_is_killed(monkeypatch):
    monkeypatch.setattr(child_module, "_LAST_SECONDS", 0.2)
    async with LocalCluster() as cluster:
        deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + READY + "\nwhile True: pass"
        child = Child(("-c", deaf), b"")
        running = asyncio.create_task(child.run(cluster.client._transport))
        await until(lambda: child.ready.is_set())
        await child.stop()
        await running


async def test_one_that_computes_without_end_ends_itself_and_is_started_again(caplog):
    program = """
import asyncio
from dray.cli.control_plane_process import _end
from dray.process.loop_watch import LoopWatch

async def main():
    watch = LoopWatch()
    watch.limit(0.6, _end)
    with watch.watching():
        await asyncio.sleep(0.1)
        while True:
            pass

asyncio.run(main())
"""
    async with LocalCluster() as cluster:
        child = Child(("-c", program), b"")
        running = asyncio.create_task(child.run(cluster.client._transport))
        await until(lambda: child.restarts)
        assert child.problems() == {"control-plane": "ended with status 70"}
        await child.stop()
        await running
