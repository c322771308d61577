"""`dray top`: devices, who holds them and who waits, live in the terminal.

Informers keep what is shown current; the screen is drawn anew when something has changed, at most twice a second, and
every five seconds for the ages. Without a terminal it is printed once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dray.allocation.device_states import DeviceState, device_states
from dray.answers.views.device_sources import PODS, DeviceSources, as_v1, device_sources
from dray.answers.views.device_tables import device_document
from dray.api.objects import Object
from dray.cli.cluster import Cluster, Where, ask, reaching
from dray.cli.output_formats import output_option, structured
from dray.cli.top_screen import screen, waiting

if TYPE_CHECKING:
    from dray.client.informer import Informers

_QUIET: Final = 0.5
_LONGEST: Final = 5.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HELP: Final = "q ends · arrows scroll"
_KEYS: Final = {b"\x1b[A": -1, b"\x1b[B": 1, b"k": -1, b"j": 1, b"\x1b[5~": -20, b"\x1b[6~": 20}


@click.command()
@output_option("table", "json", "yaml")
@reaching
def top(output: str, kubeconfig: Path | None, context: str) -> None:
    """Show devices and pending pods, updated live in a terminal.

    It shows which pods use each device and why pods are pending. Press q to quit. Without a terminal, and
    with -o json or yaml, it prints once.

    \b
    Examples:
      dray top
      dray top -o json

    Exit status: 0 printed, 1 the server refused, 2 the server cannot be reached.
    """
    with contextlib.suppress(KeyboardInterrupt):
        ask(Where(kubeconfig, context, ""), lambda cluster: _top(cluster, output))


async def _top(cluster: Cluster, output: str) -> int:
    from dray.client.informer import Informers

    sources = await device_sources(cluster.client)
    if sources is None:
        raise click.ClickException("this server has no resourceslices: it is older than DRA, or DRA is switched off")
    # Tried before it is watched: a refusal is an answer here, and would be tried again there.
    for resource in (sources.slices, sources.claims, PODS):
        await cluster.client.list(resource, limit=1)
    informers = Informers(cluster.client)
    view = View(informers, sources)
    running = asyncio.create_task(informers.run())
    try:
        await view.synced()
        if output != "table":
            click.echo(structured(view.document(), output), nl=False)
        elif sys.stdin.isatty() and sys.stdout.isatty():
            await Terminal(view).run()
        else:
            click.echo("\n".join(view.lines()))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return 0


class View:
    """The cached objects that are shown; `changed` is set when one of them changes."""

    def __init__(self, informers: Informers, sources: DeviceSources) -> None:
        self._sources = sources
        self._informers = informers
        self._slices, self._claims = informers.of(sources.slices), informers.of(sources.claims)
        self._pods = informers.of(PODS)
        self._rules = informers.of(sources.rules) if sources.rules is not None else None
        self.changed = asyncio.Event()
        for informer in (self._slices, self._claims, self._pods):
            informer.add_handler(lambda change: self.changed.set())

    async def synced(self) -> None:
        """Waits for the caches; taint rules for a second only, as users may lack the right to list them."""
        for informer in (self._slices, self._claims, self._pods):
            await informer.synced()
        if self._rules is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._rules.synced()

    def lines(self, width: int = 0) -> list[str]:
        now = datetime.now(UTC)
        return [*screen(self._states(), self._pods.cache, now, width), *self._informers.troubles()]

    def document(self) -> Object:
        """Returns the devices as `dray devices` prints them, and the pending pods with their reasons."""
        pending = [
            {"pod": pod.pod, "since": pod.since.isoformat(), "reason": pod.why} for pod in waiting(self._pods.cache)
        ]
        return {"devices": [device_document(state) for state in self._states()], "pending": pending}

    def _states(self) -> list[DeviceState]:
        sources = self._sources
        return device_states(
            [as_v1(document, sources.slices, "ResourceSlice") for document in self._slices.cache],
            [as_v1(document, sources.claims, "ResourceClaim") for document in self._claims.cache],
            self._pods.cache,
            self._rules.cache if self._rules is not None else (),
        )


class Terminal:
    def __init__(self, view: View) -> None:
        self._view = view
        self._first = 0
        self._ended = asyncio.Event()
        self._woken = view.changed

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with _own_screen():
            loop.add_reader(sys.stdin.fileno(), self._key)
            loop.add_signal_handler(signal.SIGWINCH, self._woken.set)
            try:
                while not self._ended.is_set():
                    self._woken.clear()
                    self._draw()
                    await self._pause()
            finally:
                loop.remove_reader(sys.stdin.fileno())
                loop.remove_signal_handler(signal.SIGWINCH)

    async def _pause(self) -> None:
        """Waits for a change, but at least for the shortest refresh interval."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIET):
                await self._ended.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST):
                await self._woken.wait()

    def _key(self) -> None:
        pressed = os.read(sys.stdin.fileno(), 64)
        if pressed[:1] in (b"q", b"Q", b"\x03", b""):
            self._ended.set()
        self._first = max(0, self._first + _KEYS.get(pressed, 0))
        self._woken.set()
        if not self._ended.is_set():
            self._draw()

    def _draw(self) -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        columns, rows = size.columns or 80, size.lines or 24
        head, *rest = self._view.lines(columns)
        self._first = min(self._first, max(0, len(rest) - (rows - 2)))
        shown = [head, *rest[self._first : self._first + rows - 2]]
        clock = datetime.now().strftime("%H:%M:%S")
        text = [line if len(line) <= columns else f"{line[: columns - 1]}…" for line in shown]
        text += [""] * (rows - 1 - len(text))
        foot = f"{_HELP} · {clock}"[:columns]
        sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in text) + f"\x1b[7m{foot}\x1b[0m\x1b[K")
        sys.stdout.flush()


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    """Switches to the alternate screen; restores the terminal at the end."""
    before = termios.tcgetattr(sys.stdin.fileno())
    tty.setcbreak(sys.stdin.fileno())
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
