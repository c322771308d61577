"""Framework: runs the plugins, stage by stage, in the one order in which they are listed.

Deciding, explaining, preempting and waking all go through here. Plugins of users come as `GuardedPlugin`, which never
raises but in `reserve`; one of the scheduler's own that raises is reported by its name, and its filter rejects the one
node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
    def __init__(self, state: State, plugins: Sequence[Plugin]) -> None:
        """Raises ValueError for two of one name, by which they are told apart during an attempt."""
        names = Counter(each.name for each in plugins)
        if twice := [name for name, number in names.items() if number > 1]:
            raise ValueError(f"there are two plugins of the name {twice[0]}")
        self._state = state
        self.plugins = tuple(plugins)
        filters = [each for each in plugins if each.defines("filter")]
        scores = [each for each in plugins if each.defines("score") or each.defines("normalize")]
        self._gates = [each for each in plugins if each.defines("pre_enqueue")]
        self._prefilters = [each for each in plugins if each.defines("prefilter")]
        self._kept_prefilters = [each for each in self._prefilters if _is_kept(each) and not each.lazy]
        self._filters = filters
        self._kept_filters = [each for each in filters if _is_kept(each)]
        self._own_filters = [each for each in filters if not _is_kept(each)]
        self._lazy_filters = [each for each in filters if each.lazy]
        self._kept_scores = [each for each in scores if _is_kept(each) and not each.defines("normalize")]
        self._compared_scores = [each for each in scores if each not in self._kept_scores]
        self._rescoring = [each for each in plugins if each.defines("rescore")]
        self._reserving = [each for each in plugins if each.defines("reserve")]
        state.signatures.signers = [each.sign for each in plugins if each.defines("sign")]

    # Before any node

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Why the pod is not to be tried yet."""
        for plugin in self._gates:
            status = plugin.pre_enqueue(pod)
            if status is not None:
                return status
        return None

    def prefilter(self, cycle: Cycle) -> Status | None:
        """Why the pod fits on no node. It is run again where the state changed under the attempt."""
        cycle.skipped.clear()
        cycle.own_filters = None
        return self._prefilter(self._prefilters, cycle)

    def prepare(self, cycle: Cycle) -> Status | None:
        """As `prefilter`, for the filters whose answers are kept and that are quick."""
        return self._prefilter(self._kept_prefilters, cycle)

    def _prefilter(self, plugins: Iterable[Plugin], cycle: Cycle) -> Status | None:
        for plugin in plugins:
            answer = plugin.prefilter(cycle)
            if answer is SKIP:
                cycle.skipped.add(plugin.name)
            elif isinstance(answer, Status):
                return answer
        return None

    def refresh(self, cycle: Cycle) -> None:
        """Pods were moved in thought: what plugins prepared from pods on other nodes is prepared anew."""
        for plugin in self._prefilters:
            if not _is_kept(plugin) and plugin.name not in cycle.skipped:
                plugin.prefilter(cycle)

    def is_cluster_wide(self, name: str) -> bool:
        """Whether a plugin may answer otherwise when pods come to any node or leave one."""
        return any(each.name == name and not _is_kept(each) for each in self.plugins)

    # Nodes

    def kept_filters(self, cycle: Cycle) -> list[Plugin]:
        """Those that apply to pods of the signature and whose answers can be kept."""
        return _applying(self._kept_filters, cycle)

    def own_filters(self, cycle: Cycle) -> list[Plugin]:
        """Those that are asked for each pod anew."""
        if cycle.own_filters is None:
            cycle.own_filters = _applying(self._own_filters, cycle)
        return cycle.own_filters

    def applying(self, cycle: Cycle) -> list[Plugin]:
        """All filters that have something to say about the pod."""
        return _applying(self._filters, cycle)

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        """Whether the node fits, the search for devices included: the first plugin that rejects it."""
        return self._run(self.applying(cycle), cycle, node)

    def quick_filter(self, plugins: Iterable[Plugin], cycle: Cycle, node: Node) -> Status | None:
        """As `filter`, for some plugins and without an expensive search."""
        return self._run(plugins, cycle, node, quick=True)

    def lazy_filter(self, cycle: Cycle, node: Node) -> Status | None:
        """The rest, for a node that passed the quick ones."""
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
        """What is behind the answer of a filter."""
        plugin = next((each for each in self._filters if each.name == status.plugin), None)
        return plugin.details(cycle, node) if plugin is not None else ()

    # Scores

    def score(self, cycle: Cycle, node: Node) -> int:
        """What can be kept until the node changes."""
        total = 0
        for plugin in self._kept_scores:
            total += plugin.weight * plugin.score(cycle, node)
        return total

    def comparing(self, cycle: Cycle) -> list[Plugin]:
        """Those that compare the nodes that fit with each other."""
        return [each for each in self._compared_scores if each.prescore(cycle) is not SKIP]

    def compare(self, plugins: Iterable[Plugin], cycle: Cycle, nodes: Sequence[Node], totals: dict[int, int]) -> None:
        """Adds what they say to the totals by node number."""
        for plugin in plugins:
            try:
                raw = {node.number: plugin.score(cycle, node) for node in nodes}
                found = plugin.normalize(cycle, raw)
            except Exception as error:
                self._state.report(f"score of {plugin.name}", error)
                continue
            for number, score in found.items():
                totals[number] += plugin.weight * score

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        return any(each.rescore(cycle, node) for each in self._rescoring)

    # Taking and giving back

    def reserve(self, cycle: Cycle, node: Node) -> None:
        """All or nothing."""
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
        return [each for plugin in reversed(self._reserving) for each in plugin.unreserve(cycle, node)]


def _applying(plugins: Iterable[Plugin], cycle: Cycle) -> list[Plugin]:
    skipped = cycle.skipped
    return [each for each in plugins if each.name not in skipped]


def _is_kept(plugin: Plugin) -> bool:
    return Depends.CLUSTER not in plugin.depends_on
