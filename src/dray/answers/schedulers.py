"""Makes schedulers that answer questions, with the plugins of users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dray.answers.one_line import one_line
from dray.answers.source import Tell

if TYPE_CHECKING:
    from dray.scheduling.core.guarded_plugin import Fault
    from dray.scheduling.scheduler import Options, Scheduler


def with_plugins(options: Options, plugins: tuple[str, ...]) -> Options:
    """Returns the options with these plugins and with those that installed packages offer."""
    from dray.scheduling_loop.plugin_loading import load
    from dray.scheduling_loop.plugin_watchdog import PluginWatchdog

    watchdog = PluginWatchdog()
    loaded = load(plugins, watchdog)
    watchdog.close()
    return replace(options, plugins=tuple(loaded.plugins), unloaded_plugins=tuple(loaded.unloaded))


def make_scheduler(options: Options, plugins: tuple[str, ...], tell: Tell) -> Scheduler:
    """Returns a scheduler that answers questions; `tell` gets a line for each error of a plugin."""
    from dray.scheduling.scheduler import Scheduler
    from dray.scheduling_loop.plugin_watchdog import PluginWatchdog

    def report(fault: Fault) -> None:
        tell(one_line(f"plugin {fault.plugin}: {fault.method} {fault.text}"))

    chosen = with_plugins(options, plugins)
    for plugin in chosen.unloaded_plugins:
        tell(one_line(f"plugin {plugin.name} cannot be used: {plugin.why}"))
    return Scheduler(chosen, plugin_fault=report, watchdog=PluginWatchdog())
