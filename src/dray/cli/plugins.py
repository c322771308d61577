"""Scheduler plugins of users on the command line: the option, and schedulers that have the plugins it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dray.cli.reports import one_line

if TYPE_CHECKING:
    from dray.scheduling.core.guarded_plugin import Fault
    from dray.scheduling.scheduler import Options, Scheduler

Command = TypeVar("Command", bound=Callable[..., Any])


def plugin_option(command: Command) -> Command:
    """Gives a command the option `plugins`."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE:CLASS",
        callback=_well_formed,
        help="Scheduler plugin: MODULE:CLASS, FILE.py:CLASS, or a name from an installed package; -NAME switches "
        "it off. Repeatable.",
    )(command)


def _well_formed(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [each for each in value if not each.strip("-") or each.startswith(":") or each.endswith(":")]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not of the form MODULE:CLASS, FILE.py:CLASS, NAME or -NAME")
    return value


def with_plugins(options: Options, plugins: tuple[str, ...]) -> Options:
    """With those that were asked for and those that packages offer."""
    from dray.scheduling_loop.plugin_loading import load
    from dray.scheduling_loop.plugin_watchdog import PluginWatchdog

    watchdog = PluginWatchdog()
    loaded = load(plugins, watchdog)
    watchdog.close()
    return replace(options, plugins=tuple(loaded.plugins), unloaded_plugins=tuple(loaded.unloaded))


def asked_scheduler(options: Options, plugins: tuple[str, ...]) -> Scheduler:
    """A scheduler's core that somebody asks at the command line: what plugins do wrong is told on standard error."""
    from dray.scheduling.scheduler import Scheduler
    from dray.scheduling_loop.plugin_watchdog import PluginWatchdog

    chosen = with_plugins(options, plugins)
    for each in chosen.unloaded_plugins:
        click.echo(one_line(f"warning: plugin {each.name} cannot be used: {each.why}"), err=True)
    return Scheduler(chosen, plugin_fault=_tell, watchdog=PluginWatchdog())


def _tell(fault: Fault) -> None:
    click.echo(one_line(f"warning: plugin {fault.plugin}: {fault.method} {fault.text}"), err=True)
