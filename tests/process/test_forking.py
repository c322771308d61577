"""Forked processes: what they are told, what they say, how they end, and what of their parent they have."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from dray.process.forking import can_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")

# In a process of its own, as that of the tests may have threads.
BEGIN = """
import asyncio, os, sys
from dray.process.forking import can_fork, fork
assert can_fork()

async def told(process, orders):
    await process.tell(orders)
    said = await process.stdout.read()
    return said, await process.wait()
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout + done.stderr


def test_it_reads_its_orders_and_is_read():
    said = run("""
        process = fork(lambda: print(len(sys.stdin.read()), os.getppid()), 9)
        print(os.getpid(), asyncio.run(told(process, b"x" * 1_000_000)))
    """)
    pid = said.split()[0]
    assert said == f"{pid} (b'1000000 {pid}\\n', 0)\n"


@pytest.mark.parametrize(
    ("end", "status"), [("sys.exit(3)", 3), ("sys.exit('no')", 1), ("1 / 0", 1), ("os.kill(os.getpid(), 9)", -9)]
)
def test_its_status_is_that_of_its_end(end, status):
    said = run(f"""
        def main(): {end}
        print("status", asyncio.run(told(fork(main, 9), b""))[1])
    """)
    assert f"status {status}\n" in said
    assert ("ZeroDivisionError" in said) is (end == "1 / 0")


def test_it_does_nothing_of_what_its_parent_leaves_for_its_end():
    said = run("""
        import atexit
        atexit.register(print, "once")
        try:
            status = asyncio.run(told(fork(lambda: None, 9), b""))[1]
        finally:
            print("left with", status)
    """)
    assert said == "left with 0\nonce\n"


def test_it_has_the_one_descriptor_and_no_other():
    said = run("""
        import contextlib, socket
        kept, other, third = os.pipe(), os.pipe(), socket.socketpair()
        def main():
            for number in range(64):
                with contextlib.suppress(OSError):
                    os.fstat(number)
                    print(number, end=" ")
        print(asyncio.run(told(fork(main, kept[1]), b""))[0].decode(), "kept", kept[1])
    """)
    there, _, kept = said.partition(" kept ")
    assert there.split() == ["0", "1", "2", kept.strip()]


def test_a_signal_ends_it_though_its_parent_handles_it():
    said = run("""
        import signal
        signal.signal(signal.SIGTERM, lambda *_: None)
        process = fork(lambda: sys.stdin.read(), 9)
        async def main():
            process.send_signal(signal.SIGTERM)
            return await asyncio.gather(process.wait(), process.wait())
        print(asyncio.run(main()))
    """)
    assert said == f"[-{signal.SIGTERM:d}, -{signal.SIGTERM:d}]\n"


async def test_a_process_with_threads_is_not_forked():
    await asyncio.to_thread(os.getpid)
    assert not can_fork()
