"""Flavors of Kueue's queues: which nodes each stands for, who may have it, what is left of it, and which is the better
for whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Final

from dray.allocation import taints
from dray.api.objects import Object
from dray.api.suggestions import suggestion
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.tolerations import is_repelled
from dray.scheduling.quota.kueue.kinds import API_GROUP, ClusterQueue, Flavor
from dray.scheduling.quota.queue_policy import Ask, Asset
from dray.scheduling.quota.quota_tree import QuotaTree

_UNKNOWN: Final = Flavor()
# Ways to combine the flavors of several groups of resources that are looked at.
_MOST_WAYS: Final = 16
# Cohorts above each other that count for the rank of a node, and what each takes off.
_MOST_LEVELS: Final = 4
_LEVEL: Final = 20


class Flavors:
    def __init__(self, tree: QuotaTree, topologies: Topologies) -> None:
        self._tree = tree
        self._topologies = topologies
        self._known: dict[str, Flavor] = {}
        self.tolerant = False
        """Whether pods tolerate something because of a flavor."""

    def put(self, name: str, flavor: Flavor) -> None:
        self._known[name] = flavor
        self._count()

    def remove(self, name: str) -> None:
        self._known.pop(name, None)
        self._count()

    def _count(self) -> None:
        self.tolerant = any(each.tolerations for each in self._known.values())

    def missing(self, queue: ClusterQueue) -> str | None:
        return next((each for group in queue.groups for each in group.flavors if each not in self._known), None)

    def topologies_of(self, queue: ClusterQueue) -> tuple[str, ...]:
        """Returns the topologies that the flavors of the queue name, in their order."""
        found = (self._known.get(each, _UNKNOWN).topology for group in queue.groups for each in group.flavors)
        return tuple(dict.fromkeys(each for each in found if each))

    def missing_topology(self, queue: ClusterQueue) -> str | None:
        named = self.topologies_of(queue)
        return next((each for each in named if self._topologies.levels(API_GROUP, each) is None), None)

    def _is_on(self, flavor: Flavor, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels has those of a flavor, and those of its topology."""
        levels = self._topologies.levels(API_GROUP, flavor.topology) if flavor.topology else None
        return all(labels.get(key) == each for key, each in flavor.labels.items()) and all(
            each in labels for each in levels or ()
        )

    def tell_apart(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        """Whether nodes with these labels and with others have different flavors."""
        return any(self._is_on(each, labels) != self._is_on(each, others) for each in self._known.values())

    def of(self, queue: ClusterQueue, resource: str, pod: Pod | None = None) -> tuple[str, ...]:
        """Returns the flavors in which a queue has quota of the resource; for a pod only those that it may use."""
        group = queue.group_of(resource)
        if group is None:
            return ()
        if pod is None:
            return group.flavors
        found = tuple(each for each in group.flavors if self._is_open_to(each, pod))
        selector = pod.requirements.node_selector
        if not selector or len(found) < 2:
            return found
        # Where the pod selects nodes of none, its nodes tell what is wrong.
        keys = {key for each in group.flavors for key in self._known.get(each, _UNKNOWN).labels} & selector.keys()
        chosen = tuple(each for each in found if self._is_selected(each, selector, keys))
        return chosen or found

    def _is_open_to(self, name: str, pod: Pod) -> bool:
        """Whether the pod tolerates the nodes of a flavor, by itself or since the flavor says so."""
        flavor = self._known.get(name, _UNKNOWN)
        if not flavor.taints or not is_repelled(flavor.taints, pod.requirements.tolerations):
            return True
        return all(
            pod.requirements.tolerations.cover(each) or flavor.tolerations.cover(each)
            for each in taints.effective(flavor.taints)
        )

    def _is_selected(self, name: str, selector: Mapping[str, str], keys: Iterable[str]) -> bool:
        """Whether the labels of a flavor are those that a pod selects nodes by."""
        labels = self._known.get(name, _UNKNOWN).labels
        return all(labels.get(key) == selector[key] for key in keys)

    def on(self, queue: ClusterQueue, resource: str, node: Node) -> str | None:
        """The flavor of the resource that the node has: the first whose labels it has."""
        for name in self.of(queue, resource):
            if self._is_on(self._known.get(name, _UNKNOWN), node.labels):
                return name
        return None

    def is_uniform(self, queue: ClusterQueue) -> bool:
        """Whether it makes no difference to which node a pod goes."""
        for group in queue.groups:
            if len(group.flavors) != 1:
                return False
            flavor = self._known.get(group.flavors[0], _UNKNOWN)
            if flavor.labels or flavor.taints or flavor.topology:
                return False
        return True

    def tolerates(self, queue: ClusterQueue, node: Node, taint: Object) -> bool:
        """Whether pods of the queue tolerate a taint of a node because of a flavor that the node has."""
        for group in queue.groups:
            for name in group.flavors:
                flavor = self._known.get(name, _UNKNOWN)
                if flavor.tolerations and self._is_on(flavor, node.labels):
                    return flavor.tolerations.cover(taint)
        return False

    def similar(self, name: str) -> str:
        """Returns a suggestion for the name of a flavor that does not exist."""
        return suggestion(name, self._known)

    def short(self, queue: ClusterQueue, ask: Ask) -> Reason | None:
        """Returns which resource the queue has too little of in each flavor, for what is asked."""
        for name, amount in ask.wanted.items():
            flavors = self.of(queue, name, ask.pod)
            if not flavors:
                return Reason(Code.FLAVOR_TAINTS, (queue.name, name))
            assets = [Asset(flavor, name) for flavor in flavors]
            left = max(self._tree.available(queue.name, asset) for asset in assets)
            if amount > left and amount > (most := max(self._tree.most(queue.name, asset) for asset in assets)):
                return Reason(Code.QUOTA_TOO_SMALL, (queue.name, name, str(amount), str(max(0, most))))
            if amount > left:
                return self._lacking(queue, assets, amount, left)
        return None

    def _lacking(self, queue: ClusterQueue, assets: list[Asset], amount: int, left: int) -> Reason:
        """Tells apart pods that can only borrow, since they want more than the quota of the queue in any flavor."""
        quota = max(queue.quotas[asset].nominal if asset in queue.quotas else 0 for asset in assets)
        args = (queue.name, assets[0].resource, str(amount), str(max(0, left)))
        return Reason(Code.QUOTA_BORROWING, (*args, str(quota))) if 0 < quota < amount else Reason(Code.QUOTA, args)

    def short_on(self, queue: ClusterQueue, ask: Ask, node: Node) -> Reason | None:
        """The same in the flavors of a node."""
        for name, amount in ask.wanted.items():
            flavor = self.on(queue, name, node)
            if flavor is None or flavor not in self.of(queue, name, ask.pod):
                return Reason(Code.NO_FLAVOR, (queue.name,))
            asset = Asset(flavor, name)
            left = self._tree.available(queue.name, asset)
            if amount > left:
                return self._lacking(queue, [asset], amount, left)
        return None

    def ways(self, queue: ClusterQueue, ask: Ask) -> Iterator[dict[Asset, int]]:
        """Yields the assets that the pods could be charged to, in the order in which the queue names its flavors:
        where the queue could have so much at all."""
        groups = {queue.group_of(name): name for name in ask.wanted if queue.group_of(name) is not None}
        options = [self.of(queue, name, ask.pod) for name in groups.values()]
        for chosen in islice(product(*options), _MOST_WAYS):
            flavors = dict(zip(groups, chosen, strict=True))
            assets = {Asset(flavors[queue.group_of(name)], name): amount for name, amount in ask.wanted.items()}
            if self.could_have(queue, assets):
                yield assets

    def could_have(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> bool:
        """Whether the queue could have so much if nobody used anything."""
        return all(self._tree.most(queue.name, each) >= amount for each, amount in assets.items())

    def short_of(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> Reason | None:
        """The first of the assets that the queue has too little left of."""
        for asset, amount in assets.items():
            left = self._tree.available(queue.name, asset)
            if amount > left:
                return self._lacking(queue, [asset], amount, left)
        return None

    def rank(self, queue: ClusterQueue, ask: Ask, node: Node) -> int:
        """How good the node's flavors are for pods, up to 100: the first that fit, and where the queue wants it so
        those that are borrowed from the closest cohort, or not at all."""
        rank = 100
        for name, amount in ask.wanted.items():
            flavors, flavor = self.of(queue, name), self.on(queue, name, node)
            if flavor is None:
                return 0
            assets = {Asset(flavor, name): amount}
            level = min(_MOST_LEVELS, self.borrowing_level(queue, assets)) if queue.spares_borrowing else 0
            rank = min(rank, 100 - level * _LEVEL - min(_LEVEL - 1, flavors.index(flavor)))
        return rank

    def borrowing_level(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> int:
        """How far up the queue borrows to have so much more; 0 where it need not."""
        return max((self._tree.borrowing_level(queue.name, each, amount) for each, amount in assets.items()), default=0)

    def first(self, queue: ClusterQueue, ways: Sequence[Mapping[Asset, int]]) -> Mapping[Asset, int]:
        """Returns the way that is taken as things are: the first that there is room for, or the one with the least to
        borrow where the queue wants it so; the first of all where there is room for none."""
        fitting = [each for each in ways if self.has_room(queue, each)]
        if queue.spares_borrowing and fitting:
            return min(fitting, key=lambda each: self.borrowing_level(queue, each))
        return next(iter(fitting or ways), {})

    def has_room(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> bool:
        return all(self._tree.available(queue.name, asset) >= amount for asset, amount in assets.items())
