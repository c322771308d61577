"""Faults between kubelet and driver: what happens to the next call of a method instead of a plain question and answer.

    kubelet.faults.next_prepare(lost_answer())
    kubelet.faults.next_prepare(during(process.kill, after=0.01))
    kubelet.faults.next_unprepare(deadline(0.1))

Each fault is for one call; several are taken in turn. The driver is real and unmodified: it does what it was asked, or
dies over it. `calls` has the claims of every call that was made, so a test can say how often a driver was asked.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

from dray.node.plugin_client import PREPARE, UNPREPARE

Invoke: TypeAlias = Callable[[float | None], Awaitable[Any]]
"""Calls the driver with another timeout, or with its own if it is None; returns the answer."""
Fault: TypeAlias = Callable[[Invoke], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    claims: tuple[str, ...]
    """The names of the claims."""


class Faults(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._next: dict[str, deque[Fault]] = {PREPARE: deque(), UNPREPARE: deque()}

    def next_prepare(self, *faults: Fault) -> None:
        self._next[PREPARE].extend(faults)

    def next_unprepare(self, *faults: Fault) -> None:
        self._next[UNPREPARE].extend(faults)

    @property
    def prepares(self) -> list[tuple[str, ...]]:
        return [call.claims for call in self.calls if call.method == PREPARE]

    @property
    def unprepares(self) -> list[tuple[str, ...]]:
        return [call.claims for call in self.calls if call.method == UNPREPARE]

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        path = client_call_details.method
        method = (path.decode() if isinstance(path, bytes) else path).rpartition("/")[2]
        self.calls.append(Call(method, tuple(claim.name for claim in request.claims)))

        async def invoke(limit: float | None) -> Any:
            details = client_call_details if limit is None else client_call_details._replace(timeout=limit)
            return await (await continuation(details, request))

        faults = self._next.get(method)
        return await (faults.popleft()(invoke) if faults else invoke(None))


def lost_answer() -> Fault:
    """Loses the answer: the driver does its work, and the connection breaks before its answer arrives."""

    async def fault(invoke: Invoke) -> Any:
        await invoke(None)
        raise _unavailable("the connection broke before the answer")

    return fault


def unreachable() -> Fault:
    """Loses the request: the driver never gets it."""

    async def fault(invoke: Invoke) -> Any:
        raise _unavailable("the driver cannot be reached")

    return fault


def answer_for_another_claim(uid: str = "00000000-0000-4000-8000-000000000000") -> Fault:
    """Gives the first claim of the answer another uid."""

    async def fault(invoke: Invoke) -> Any:
        answer = await invoke(None)
        first = next(iter(answer.claims))
        answer.claims[uid].CopyFrom(answer.claims[first])
        del answer.claims[first]
        return answer

    return fault


def skipped_claim() -> Fault:
    """Leaves the first claim out of the answer."""

    async def fault(invoke: Invoke) -> Any:
        answer = await invoke(None)
        del answer.claims[next(iter(answer.claims))]
        return answer

    return fault


def deadline(seconds: float) -> Fault:
    """Sets the timeout of the call."""

    async def fault(invoke: Invoke) -> Any:
        return await invoke(seconds)

    return fault


def during(action: Callable[[], Any], *, after: float = 0.0) -> Fault:
    """Calls `action`, such as killing the driver, this many seconds after the request was sent."""

    async def fault(invoke: Invoke) -> Any:
        call = asyncio.ensure_future(invoke(None))
        try:
            await asyncio.wait((call,), timeout=after)
            done = action()
            if inspect.isawaitable(done):
                await done
            return await call
        finally:
            call.cancel()

    return fault


def dying(kill: Callable[[], Any], *, after: float = 0.0) -> Fault:
    """Kills the driver this many seconds after the request was sent; the kubelet gets no answer in any case."""

    async def fault(invoke: Invoke) -> Any:
        await during(kill, after=after)(invoke)
        raise _unavailable("the driver died before its answer arrived")

    return fault


def _unavailable(details: str) -> grpc.aio.AioRpcError:
    empty = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, empty, empty, details=details)
