"""The kubelet's end of the plugin registration protocol: one conversation over one registration socket."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import grpc

from dray._proto import kubelet_pb2 as messages
from dray._proto.services import REGISTRATION
from dray.node.channels import unix_channel
from dray.node.errors import RegistrationError
from dray.node.timing import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """The answer of a plugin to GetInfo; `endpoint` is its service socket, by default the registration socket."""

    type: str
    name: str
    endpoint: str
    versions: tuple[str, ...]


class RegistrationClient:
    """Connects within `async with`. Every failure raises RegistrationError."""

    def __init__(self, path: Path, timing: Timing) -> None:
        self._path = path
        self._timing = timing
        self._channel = unix_channel(path)
        self._stub = REGISTRATION.stub(self._channel)

    async def __aenter__(self) -> RegistrationClient:
        try:
            await asyncio.wait_for(self._channel.channel_ready(), self._timing.dial)
        except TimeoutError:
            await self._channel.close()
            raise RegistrationError(
                f"{self._path}: nothing answered within {self._timing.dial:g} s; is the plugin's process alive?"
            ) from None
        except BaseException:
            await self._channel.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def info(self) -> PluginInfo:
        try:
            said = await self._stub.GetInfo(messages.InfoRequest(), timeout=self._timing.get_info)
        except grpc.aio.AioRpcError as error:
            raise RegistrationError(f"{self._path}: GetInfo failed: {_told(error)}") from None
        return PluginInfo(
            type=said.type,
            name=said.name,
            endpoint=said.endpoint or str(self._path),
            versions=tuple(said.supported_versions),
        )

    async def notify(self, error: str = "") -> None:
        """Tells the plugin that it is registered, or why it is not."""
        status = messages.RegistrationStatus(plugin_registered=not error, error=error)
        try:
            await self._stub.NotifyRegistrationStatus(status, timeout=self._timing.notify)
        except grpc.aio.AioRpcError as failure:
            raise RegistrationError(
                f"{self._path}: the plugin refused its registration status: {_told(failure)}"
            ) from None


def _told(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"
