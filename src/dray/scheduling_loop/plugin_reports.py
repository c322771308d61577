"""Reports about plugins of users: log lines, metrics, and which of them are switched off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from dray.client.log_throttling import ThrottledLog
from dray.scheduling.guarded_plugin import GuardedPlugin
from dray.scheduling.plugin_faults import Fault, UnloadedPlugin

_logger = logging.getLogger("dray.scheduler")


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
            "Attempts in which a plugin of a user raised, answered nonsense, or overran its budget.",
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
        """By plugin, why it is not used; empty where it is."""
        found = {each.name: f"cannot be used: {each.why}" for each in self._unloaded}
        return found | {each.name: f"switched off: {each.off}" if each.off else "" for each in self._plugins}


def _works(plugin: GuardedPlugin) -> float:
    return float(not plugin.off)
