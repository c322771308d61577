"""The plugin registry: registers the plugins whose sockets appear in a directory, deregisters those that vanish.

Each scan first deregisters what should go (no socket, or another one under the same path), then starts a registration
for every socket without one. A registration is a conversation of its own: dial, GetInfo, validation and registration by
the handler of the plugin's type, NotifyRegistrationStatus. One that fails is tried again with backoff for as long as
the socket is there; one that hangs does not delay others. Every attempt and its result is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from dray.node.errors import RegistrationError
from dray.node.registration_client import PluginInfo, RegistrationClient
from dray.node.registration_sockets import Identity, registration_sockets
from dray.node.timing import Timing
from dray.process.tasks import end_tasks

DRA_PLUGIN: Final = "DRAPlugin"
_logger = logging.getLogger(__name__)


class PluginHandler(Protocol):
    """Handles plugins of one type. `validate` and `register` raise RegistrationError to refuse a plugin."""

    def validate(self, info: PluginInfo) -> None: ...

    def register(self, info: PluginInfo) -> None: ...

    async def deregister(self, info: PluginInfo) -> None: ...


@dataclass(slots=True)
class _Plugin:
    """State of one socket: its running attempt, and the result of the last one."""

    identity: Identity
    attempt: asyncio.Task[None] | None = None
    info: PluginInfo | None = None
    """Set once the plugin is registered."""
    error: str = ""
    failures: int = 0
    not_before: float = 0.0


class RegistrationState(NamedTuple):
    """Result of one socket for a status command; not registered and without an error means it is in progress."""

    path: Path
    driver: str
    registered: bool
    error: str


class PluginRegistry:
    def __init__(self, directory: Path, handlers: Mapping[str, PluginHandler], timing: Timing | None = None) -> None:
        self._directory = directory
        self._handlers = handlers
        self._timing = timing or Timing()
        self._plugins: dict[Path, _Plugin] = {}
        self._hint = asyncio.Event()

    @property
    def states(self) -> list[RegistrationState]:
        return [
            RegistrationState(
                path=path,
                driver=plugin.info.name if plugin.info else "",
                registered=plugin.info is not None,
                error=plugin.error,
            )
            for path, plugin in self._plugins.items()
        ]

    async def run(self) -> None:
        """Scans the directory until it is cancelled. Plugins stay registered then; the handlers' owner ends them."""
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            while True:
                self._hint.clear()
                await self.scan()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._timing.registry_scan):
                        await self._hint.wait()
        finally:
            attempts = [plugin.attempt for plugin in self._plugins.values() if plugin.attempt is not None]
            await end_tasks(attempts)

    def look(self) -> None:
        """Starts a scan at once, for callers that know of a new socket."""
        self._hint.set()

    async def scan(self) -> None:
        """Compares the directory with the registered plugins, and starts registrations and deregistrations."""
        found = registration_sockets(self._directory)
        for path, plugin in list(self._plugins.items()):
            if found.get(path) != plugin.identity:
                await self._remove(path, plugin)
        now = asyncio.get_running_loop().time()
        for path, identity in found.items():
            plugin = self._plugins.setdefault(path, _Plugin(identity))
            if plugin.info is None and plugin.attempt is None and now >= plugin.not_before:
                plugin.attempt = asyncio.create_task(self._attempt(path, plugin), name=f"registration of {path}")

    async def _remove(self, path: Path, plugin: _Plugin) -> None:
        if plugin.attempt is not None:
            plugin.attempt.cancel()
            await asyncio.gather(plugin.attempt, return_exceptions=True)
        self._plugins.pop(path, None)
        if plugin.info is not None:
            _logger.info("%s %s is deregistered: %s is gone or new", plugin.info.type, plugin.info.name, path)
            await self._handlers[plugin.info.type].deregister(plugin.info)

    async def _attempt(self, path: Path, plugin: _Plugin) -> None:
        try:
            plugin.info, plugin.error = await self._register(path), ""
            _logger.info("%s %s is registered: %s", plugin.info.type, plugin.info.name, path)
        except RegistrationError as error:
            plugin.error = str(error)
            plugin.failures += 1
            wait = self._timing.registration.delay(plugin.failures, random.random)
            plugin.not_before = asyncio.get_running_loop().time() + wait
            _logger.warning("%s is not registered, next attempt in %.1f s: %s", path, wait, error)
        finally:
            plugin.attempt = None

    async def _register(self, path: Path) -> PluginInfo:
        async with RegistrationClient(path, self._timing) as client:
            info = await client.info()
            handler = self._handlers.get(info.type)
            try:
                if handler is None:
                    raise RegistrationError(f"no handler registered for plugin type {info.type!r} at {path}")
                handler.validate(info)
                handler.register(info)
            except RegistrationError as refusal:
                # A plugin may answer this with an error of its own: the refusal is what counts.
                with contextlib.suppress(RegistrationError):
                    await client.notify(str(refusal))
                raise
            try:
                await client.notify()
            except BaseException:
                # A plugin that was not notified of its registration must not be called.
                await handler.deregister(info)
                raise
            return info
