"""Framework: runs the plugins, stage by stage, in the order in which they are listed.

Decisions, explanations, preemption and queueing hints all use it. Plugins of users are wrapped in `GuardedPlugin`,
which raises only in `reserve`. If a filter of the scheduler's own plugins raises, the error is reported with the name
of the plugin, and the filter rejects that one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model import faults
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, ObjectRef
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin


class Framework:
    def __init__(self, state: State, plugins: Sequence[Plugin], weights: Mapping[str, int] | None = None) -> None:
        """Raises ValueError if two plugins have the same name, since names identify plugins during an attempt.

        `weights` replace the weights of scores, by the name of the plugin; 0 switches a score off.
        """
        names = Counter(plugin.name for plugin in plugins)
        if twice := [name for name, number in names.items() if number > 1]:
            raise ValueError(f"there are two plugins of the name {twice[0]}")
        self._state = state
        self.plugins = tuple(plugins)
        filters = [plugin for plugin in plugins if plugin.defines("filter")]
        self._weights = {plugin.name: plugin.weight for plugin in plugins} | dict(weights or {})
        scored = [plugin for plugin in plugins if self._weights[plugin.name]]
        scores = [plugin for plugin in scored if plugin.defines("score") or plugin.defines("normalize")]
        self._gates = [plugin for plugin in plugins if plugin.defines("pre_enqueue")]
        self._prefilters = [plugin for plugin in plugins if plugin.defines("prefilter")]
        self._kept_prefilters = [plugin for plugin in self._prefilters if _is_kept(plugin) and not plugin.lazy]
        self._refreshed = [plugin for plugin in self._prefilters if not _is_kept(plugin)]
        self._filters = filters
        self._kept_filters = [plugin for plugin in filters if _is_kept(plugin)]
        self._own_filters = [plugin for plugin in filters if not _is_kept(plugin)]
        self._lazy_filters = [plugin for plugin in filters if plugin.lazy]
        kept = [plugin for plugin in scores if _is_kept(plugin) and not plugin.defines("normalize")]
        self._kept_scores = [(plugin, self._weights[plugin.name]) for plugin in kept]
        self._compared_scores = [plugin for plugin in scores if plugin not in kept]
        self._preferring = [plugin for plugin in self._compared_scores if plugin.depends_on == Depends.NODE]
        self._revised_scores = [plugin for plugin in kept if plugin.defines("score_revision")]
        self._rescoring = [plugin for plugin in plugins if plugin.defines("rescore")]
        self._reserving = [plugin for plugin in plugins if plugin.defines("reserve")]
        state.signatures.sign_with([plugin.sign for plugin in plugins if plugin.defines("sign")])

    # Stages before nodes are filtered

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Returns why the pod must not be tried yet; None if it can be tried."""
        for plugin in self._gates:
            status = plugin.pre_enqueue(pod)
            if status is not None:
                return status
        return None

    def prefilter(self, cycle: Cycle) -> Status | None:
        """Returns why the pod fits on no node; None if nodes can be filtered. It runs again if the state changed during
        the attempt."""
        cycle.skipped.clear()
        cycle.own_filters = None
        return self._prefilter(self._prefilters, cycle)

    def prepare(self, cycle: Cycle) -> Status | None:
        """Runs `prefilter` of the plugins whose filters are quick and have answers that are kept."""
        return self._prefilter(self._kept_prefilters, cycle)

    def _prefilter(self, plugins: Iterable[Plugin], cycle: Cycle) -> Status | None:
        skipped = cycle.skipped
        for plugin in plugins:
            answer = plugin.prefilter(cycle)
            if answer is SKIP:
                skipped.add(plugin.name)
            elif isinstance(answer, Status):
                return answer
        return None

    def refresh(self, cycle: Cycle) -> None:
        """Runs the prefilters again that depend on pods of other nodes, after pods were moved in a trial.

        A plugin that was skipped may concern the pod now: another pod of its group was placed, and has terms.
        """
        for plugin in self._refreshed:
            if plugin.name not in cycle.skipped:
                plugin.prefilter(cycle)
            elif not plugin.skip_is_final and plugin.prefilter(cycle) is None:
                cycle.skipped.discard(plugin.name)
                cycle.own_filters = None

    def is_cluster_wide(self, name: str) -> bool:
        """Whether answers of the plugin may change when a pod is added to or removed from any node."""
        return any(plugin.name == name and not _is_kept(plugin) for plugin in self.plugins)

    # Nodes

    def kept_filters(self, cycle: Cycle) -> list[Plugin]:
        """Returns the filters that apply to pods of the signature and have answers that are kept."""
        return _applying(self._kept_filters, cycle)

    def own_filters(self, cycle: Cycle) -> list[Plugin]:
        """Returns the filters that apply to the pod and have answers that are not kept."""
        if cycle.own_filters is None:
            cycle.own_filters = _applying(self._own_filters, cycle)
        return cycle.own_filters

    def applying(self, cycle: Cycle) -> list[Plugin]:
        """Returns all filters that apply to the pod."""
        return _applying(self._filters, cycle)

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        """Runs all filters, including the search for devices; returns the first rejection, None if the pod fits."""
        return self._run(self.applying(cycle), cycle, node)

    def quick_filter(self, plugins: Iterable[Plugin], cycle: Cycle, node: Node) -> Status | None:
        """Runs the filters of the given plugins, with `precheck` in place of expensive filters."""
        return self._run(plugins, cycle, node, quick=True)

    def lazy_filter(self, cycle: Cycle, node: Node) -> Status | None:
        """Runs the expensive filters, for a node that passed `quick_filter`."""
        return self._run(_applying(self._lazy_filters, cycle), cycle, node)

    def _run(self, plugins: Iterable[Plugin], cycle: Cycle, node: Node, *, quick: bool = False) -> Status | None:
        for plugin in plugins:
            try:
                status = plugin.precheck(cycle, node) if quick and plugin.lazy else plugin.filter(cycle, node)
            except Exception as error:
                self._state.report(f"{plugin.name} on node {node.name}", error)
                return Status.of(plugin.name, Code.NODE_FAILED, faults.text(error))
            if status is not None:
                return status
        return None

    def details(self, status: Status, cycle: Cycle, node: Node) -> tuple[Any, ...]:
        """Returns details of a rejection by a filter."""
        plugin = next((plugin for plugin in self._filters if plugin.name == status.plugin), None)
        return plugin.details(cycle, node) if plugin is not None else ()

    # Scores

    def score(self, cycle: Cycle, node: Node) -> int:
        """Returns the part of the node's score that can be kept until the node changes."""
        total = 0
        for plugin, weight in self._kept_scores:
            total += weight * plugin.score(cycle, node)
        return total

    def score_revision(self, cycle: Cycle) -> int:
        """Returns another number than before if kept scores changed on nodes that did not."""
        return sum([plugin.score_revision(cycle) for plugin in self._revised_scores])

    def comparing(self, cycle: Cycle) -> list[Plugin]:
        """Returns the plugins that compare feasible nodes with each other for the pod."""
        return [plugin for plugin in self._compared_scores if plugin.prescore(cycle) is not SKIP]

    def preferring(self, cycle: Cycle) -> list[Plugin]:
        """Returns those of `comparing` whose scores depend on the pod and the nodes alone, not on what runs there."""
        return [plugin for plugin in self._preferring if plugin.prescore(cycle) is not SKIP]

    def compare(self, plugins: Iterable[Plugin], cycle: Cycle, nodes: Sequence[Node], totals: dict[int, int]) -> None:
        """Adds the weighted scores of the plugins to the totals by node number."""
        for plugin in plugins:
            try:
                raw = {node.number: plugin.score(cycle, node) for node in nodes}
                found = plugin.normalize(cycle, raw)
            except Exception as error:
                self._state.report(f"score of {plugin.name}", error)
                continue
            for number, score in found.items():
                totals[number] += self._weights[plugin.name] * score

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        return any(plugin.rescore(cycle, node) for plugin in self._rescoring)

    # Reserve

    def reserve(self, cycle: Cycle, node: Node) -> None:
        """Runs `reserve` of all plugins. If one raises, the plugins before it are unreserved."""
        done: list[Plugin] = []
        try:
            for plugin in self._reserving:
                plugin.reserve(cycle, node)
                done.append(plugin)
        except Exception:
            for plugin in reversed(done):
                plugin.unreserve(cycle, node)
            raise

    def unreserve(self, cycle: Cycle, node: Node) -> list[ObjectRef]:
        return [freed for plugin in reversed(self._reserving) for freed in plugin.unreserve(cycle, node)]


def _applying(plugins: Iterable[Plugin], cycle: Cycle) -> list[Plugin]:
    skipped = cycle.skipped
    return [plugin for plugin in plugins if plugin.name not in skipped]


def _is_kept(plugin: Plugin) -> bool:
    return Depends.CLUSTER not in plugin.depends_on
