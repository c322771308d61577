"""Sends the calls of a failed run to fresh clusters and cuts them down to those that are needed.

    python -m tests.attacks.fuzz.replay JOURNAL

prints what goes wrong and writes the calls that lead there to JOURNAL.min, and as curl commands to the output.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.attacks.canary import Bound
from tests.attacks.cluster import LAB, Cluster, started
from tests.attacks.fuzz.run import STALL, Sender, Sent, Wrong

# How long controllers and scheduler get to fail at what was sent.
_SETTLE = 3.0


def trouble(calls: Sequence[Sent]) -> str:
    """What goes wrong on a fresh cluster; empty where nothing does."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), LAB) as cluster:
        sender = Sender(cluster, timeout=5 * STALL)
        try:
            for each in calls:
                sender.send(each, watch="watch=true" in each.path)
            _settle(cluster, sender)
        except (Wrong, OSError, AssertionError) as wrong:
            return str(wrong)[:3000]
        finally:
            sender.close()
    return ""


def _settle(cluster: Cluster, sender: Sender) -> None:
    end = time.monotonic() + _SETTLE
    while time.monotonic() < end:
        began = time.monotonic()
        bound = Bound(cluster.url)
        bound()
        bound.delete()
        if time.monotonic() - began > STALL:
            raise Wrong(f"a pod was bound after {time.monotonic() - began:.1f} s")
    sender.check()
    if sender.slow:
        raise Wrong(f"answered after {sender.slow[0][0]:.1f} s: {sender.slow[0][1]}")


def minimal(calls: list[Sent], bad: Callable[[Sequence[Sent]], object]) -> list[Sent]:
    """A sequence from which no call can be left out (delta debugging)."""
    for last in (1, 5, 30, 200, 1000):
        if last < len(calls) and bad(calls[-last:]):
            calls = calls[-last:]
            break
    parts = 2
    while len(calls) > 1:
        size = max(1, len(calls) // parts)
        for start in range(0, len(calls), size):
            rest = calls[:start] + calls[start + size :]
            if rest and bad(rest):
                calls, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(calls), 2 * parts)
    return calls


def curl(sent: Sent) -> str:
    words = ["curl", "-sX", sent.method, f"$URL{sent.path}"]
    for header in sent.headers.items():
        words += ["-H", ": ".join(header)]
    if sent.body is not None:
        words += ["--data-binary", sent.body.decode(errors="replace")]
    return " ".join(map(shlex.quote, words)).replace("'$URL", "$URL'")


def main(journal: Path) -> None:
    calls = [Sent.of(line) for line in journal.read_text().splitlines()]
    found = trouble(calls)
    print(f"{len(calls)} calls: {found or 'nothing goes wrong'}")
    if found:
        calls = minimal(calls, trouble)
        journal.with_suffix(".min").write_text("".join(each.line() + "\n" for each in calls))
        print(trouble(calls))
        print("\n".join(map(curl, calls)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
