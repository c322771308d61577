"""Delivers notifications to a webhook or a command, with a time limit and a few retries.

A webhook has ten seconds to answer and is not followed if it redirects. An answer of 4xx, apart from 408 and 429, is
final. A command has thirty seconds; it is killed after that, and runs without a shell.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from dray.client.retries import Backoff
from dray.controllers.notifications.messages import Notification
from dray.controllers.notifications.options import NotificationOptions

_URL_SECONDS: Final = 10.0
_COMMAND_SECONDS: Final = 30.0
_ATTEMPTS: Final = 5
_BACKOFF: Final = Backoff(first=1.0, longest=60.0)
_AGAIN: Final = (408, 429)


class DeliveryFailed(Exception):
    """A notification could not be sent. The text names the webhook's host but not its path, which may be a secret."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


async def deliver(options: NotificationOptions, notification: Notification) -> None:
    """Calls the webhook and the command. Raises DeliveryFailed if one of them fails."""
    body = json.dumps(notification.document(), ensure_ascii=False).encode()
    work: list[Callable[[], Awaitable[None]]] = []
    if options.url:
        work.append(lambda: asyncio.to_thread(_post, options.url, body))
    if options.command:
        work.append(lambda: _run(options.command, body))
    results = await asyncio.gather(*map(_retried, work), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _retried(work: Callable[[], Awaitable[None]]) -> None:
    for attempt, pause in enumerate(_BACKOFF.delays(), 1):
        try:
            return await work()
        except DeliveryFailed as error:
            if error.is_final or attempt == _ATTEMPTS:
                raise
        await asyncio.sleep(pause)


def _post(url: str, body: bytes) -> None:
    host = urlsplit(url).hostname
    headers = {"Content-Type": "application/json", "User-Agent": "dray"}
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_URL_SECONDS):
            return
    except urllib.error.HTTPError as error:
        with error:
            is_final = 300 <= error.code < 500 and error.code not in _AGAIN
        raise DeliveryFailed(f"the webhook at {host} answered {error.code}", is_final=is_final) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DeliveryFailed(f"the webhook at {host} cannot be reached: {type(reason).__name__}") from None


async def _run(command: tuple[str, ...], body: bytes) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise DeliveryFailed(f"the command {command[0]} cannot be run: {error.strerror}", is_final=True) from None
    try:
        async with asyncio.timeout(_COMMAND_SECONDS):
            # A line of its own for commands that append to a file.
            await process.communicate(body + b"\n")
    except TimeoutError:
        raise DeliveryFailed(f"the command {command[0]} has not ended within {_COMMAND_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise DeliveryFailed(f"the command {command[0]} ended with status {process.returncode}")
