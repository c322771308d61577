"""Faults: counts unexpected errors of the scheduler, and logs each cause once with its traceback.

Each error concerns one object. Objects that the scheduler cannot read are left out, and an event reports that. Faults
of users' plugins have metrics of their own, and the log names plugins that are switched off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from dray.allocation.node_selectors import NodeSelectorError
from dray.api.catalogue import KindVersion
from dray.client.cache import Change
from dray.client.discovery import ServedResource
from dray.client.events import EventRecorder
from dray.client.log_throttling import ThrottledLog
from dray.scheduling.core.guarded_plugin import Fault, GuardedPlugin, UnloadedPlugin
from dray.scheduling.model.faults import text

_MOST_CAUSES: Final = 1000
_logger = logging.getLogger("dray.scheduler")


class Faults:
    def __init__(self, events: EventRecorder, counter: Counter) -> None:
        self._events = events
        self._counter = counter
        self._causes: set[tuple[str, str, int]] = set()

    def report(self, what: str, error: Exception) -> None:
        """Reports an error; `what` describes what was being done."""
        self._counter.inc()
        cause = _cause(error)
        if cause in self._causes:
            _logger.debug("%s failed again: %s", what, text(error))
            return
        if len(self._causes) < _MOST_CAUSES:
            self._causes.add(cause)
        _logger.error("%s failed; everything else goes on", what, exc_info=error)

    def set_aside(self, resource: KindVersion | ServedResource, change: Change, error: Exception) -> None:
        """Reports an object that the scheduler cannot read."""
        namespace, name = change.key
        what = f"{resource.kind} {namespace + '/' if namespace else ''}{name}"
        if isinstance(error, NodeSelectorError):
            _logger.warning("%s is left out of account: %s", what, error)
        else:
            self.report(f"reading {what}", error)
        if change.type != "DELETED":
            about = {"apiVersion": resource.api_version, "kind": resource.kind, **change.object}
            message = f"the scheduler cannot read this {resource.kind} and leaves it out of account: {text(error)}"
            self._events.warning(about, "SchedulerError", message, action="Scheduling")


def _cause(error: Exception) -> tuple[str, str, int]:
    """Returns the type of the error, and the file and line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__, "", 0
    return type(error).__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno


class PluginReports:
    def __init__(
        self, registry: CollectorRegistry, unloaded: Sequence[UnloadedPlugin], changed: Callable[[], None]
    ) -> None:
        """`changed` is called when a plugin is switched off."""
        self._unloaded = unloaded
        self._changed = changed
        self._throttled = ThrottledLog(_logger)
        self._plugins: Sequence[GuardedPlugin] = ()
        self._faults = Counter(
            "dray_scheduler_plugin_faults_total",
            "Attempts in which a plugin of a user raised, gave an invalid answer, or overran its budget.",
            ("plugin", "method", "kind"),
            registry=registry,
        )
        self._works = Gauge(
            "dray_scheduler_plugin_up", "Whether a plugin of a user is used.", ("plugin",), registry=registry
        )
        for each in unloaded:
            self._works.labels(each.name).set(0)
            _logger.error("plugin %s cannot be used, and the scheduler goes on without it: %s", each.name, each.why)

    def follow(self, plugins: Sequence[GuardedPlugin]) -> None:
        self._plugins = plugins
        for each in plugins:
            self._works.labels(each.name).set_function(partial(_works, each))
        if plugins:
            _logger.info("plugins: %s", ", ".join(each.name for each in plugins))

    def fault(self, fault: Fault) -> None:
        self._faults.labels(fault.plugin, fault.method, fault.kind.value).inc()
        if fault.switched_off:
            plugin = next(each for each in self._plugins if each.name == fault.plugin)
            _logger.error("plugin %s is switched off: %s", fault.plugin, plugin.off, exc_info=fault.error)
            self._changed()
        else:
            cause = f"{fault.plugin} {fault.method} {fault.kind.value}"
            self._throttled.warning(cause, "plugin %s: %s %s", fault.plugin, fault.method, fault.text)

    def problems(self) -> dict[str, str]:
        """Returns why each plugin is not used, by name of the plugin; an empty text if it is used."""
        found = {each.name: f"cannot be used: {each.why}" for each in self._unloaded}
        return found | {each.name: f"switched off: {each.off}" if each.off else "" for each in self._plugins}


def _works(plugin: GuardedPlugin) -> float:
    return float(not plugin.off)
