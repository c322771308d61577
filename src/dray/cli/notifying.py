"""The options of notifications, for commands that run controllers."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from dray.controllers.notifications.options import NotificationOptions

Command = TypeVar("Command", bound=Callable[..., Any])
NOTIFICATION_OPTIONS: Final = ("notify_url", "notify_command", "notify_waiting_minutes")
"""The names of the options that `notifying` adds to a command, for `notification_options`."""


def notifying(command: Command) -> Command:
    """Gives a command the options of notifications."""
    for option in (
        click.option(
            "--notify-waiting-minutes",
            type=click.FloatRange(min=0),
            default=30,
            show_default=True,
            metavar="NUMBER",
            help="Notify if a pod has waited for a node this long (0: never).",
        ),
        click.option(
            "--notify-command",
            default="",
            metavar="COMMAND",
            callback=lambda _, __, value: _words(value),
            help="Run this command when a Job or a pod ends, fails or waits too long; it reads JSON from its input.",
        ),
        click.option(
            "--notify-url",
            default="",
            envvar="DRAY_NOTIFY_URL",
            metavar="URL",
            callback=lambda _, __, value: _url(value),
            help="Send the same JSON to this URL by POST. Set a secret URL in DRAY_NOTIFY_URL instead.",
        ),
    ):
        command = option(command)
    return command


def notification_options(
    *, notify_url: str, notify_command: tuple[str, ...], notify_waiting_minutes: float
) -> NotificationOptions:
    from dray.controllers.notifications.options import NotificationOptions

    return NotificationOptions(notify_url, notify_command, 60 * notify_waiting_minutes)


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if value and not is_url:
        # The value may be a secret.
        raise click.BadParameter("it must be a URL that begins with http:// or https://")
    return value


def _words(value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None
