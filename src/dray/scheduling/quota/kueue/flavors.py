"""Flavors: the ResourceFlavors of Kueue, their nodes, the pods that may use them, and the quota left in them."""

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
from dray.scheduling.quota.queue_policy import Ask, Asset, FlavorChoice
from dray.scheduling.quota.quota_tree import QuotaTree

_UNKNOWN: Final = Flavor()
# The maximum number of combinations of flavors of several resource groups that are considered.
_MOST_WAYS: Final = 16
# The maximum number of levels of cohorts that count for the rank of a node, and what each level subtracts.
_MOST_LEVELS: Final = 4
_LEVEL: Final = 20


class Flavors:
    def __init__(self, tree: QuotaTree, topologies: Topologies) -> None:
        self._tree = tree
        self._topologies = topologies
        self._known: dict[str, Flavor] = {}
        self.tolerant = False
        """Whether a flavor has tolerations, which pods with the flavor get."""
        self.tainted = False
        """Whether a flavor has taints, so that only some pods may use it."""

    def put(self, name: str, flavor: Flavor) -> None:
        self._known[name] = flavor
        self._count()

    def remove(self, name: str) -> None:
        self._known.pop(name, None)
        self._count()

    def _count(self) -> None:
        self.tolerant = any(flavor.tolerations for flavor in self._known.values())
        self.tainted = any(flavor.taints for flavor in self._known.values())

    def missing(self, queue: ClusterQueue) -> str | None:
        return next((name for group in queue.groups for name in group.flavors if name not in self._known), None)

    def topologies_of(self, queue: ClusterQueue) -> tuple[str, ...]:
        """Returns the topologies that the flavors of the queue name, in their order."""
        found = (self._known.get(name, _UNKNOWN).topology for group in queue.groups for name in group.flavors)
        return tuple(dict.fromkeys(topology for topology in found if topology))

    def missing_topology(self, queue: ClusterQueue) -> str | None:
        named = self.topologies_of(queue)
        return next((topology for topology in named if self._topologies.levels(API_GROUP, topology) is None), None)

    def _is_on(self, flavor: Flavor, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels has the labels of the flavor and all labels of the flavor's topology."""
        levels = self._topologies.levels(API_GROUP, flavor.topology) if flavor.topology else None
        return all(labels.get(key) == value for key, value in flavor.labels.items()) and all(
            level in labels for level in levels or ()
        )

    def tell_apart(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        """Whether a node with labels `labels` and a node with labels `others` have different flavors."""
        return any(self._is_on(flavor, labels) != self._is_on(flavor, others) for flavor in self._known.values())

    def of(self, queue: ClusterQueue, resource: str, pod: Pod | None = None) -> tuple[str, ...]:
        """Returns the flavors in which a queue has quota of the resource; with a pod, only flavors that it may use."""
        group = queue.group_of(resource)
        if group is None:
            return ()
        if pod is None:
            return group.flavors
        found = tuple(name for name in group.flavors if self._is_tolerated(name, pod))
        selector = pod.requirements.node_selector
        if not selector or len(found) < 2:
            return found
        # If the pod selects nodes of none of the flavors, the filters of nodes report that.
        keys = {key for name in group.flavors for key in self._known.get(name, _UNKNOWN).labels} & selector.keys()
        chosen = tuple(name for name in found if self._is_selected(name, selector, keys))
        return chosen or found

    def _is_tolerated(self, name: str, pod: Pod) -> bool:
        """Whether the taints of the flavor are tolerated, by the pod or by tolerations of the flavor."""
        flavor = self._known.get(name, _UNKNOWN)
        if not flavor.taints or not is_repelled(flavor.taints, pod.requirements.tolerations):
            return True
        return all(
            pod.requirements.tolerations.cover(taint) or flavor.tolerations.cover(taint)
            for taint in taints.effective(flavor.taints)
        )

    def _is_selected(self, name: str, selector: Mapping[str, str], keys: Iterable[str]) -> bool:
        """Whether the labels of a flavor match the node selector of a pod for the given keys."""
        labels = self._known.get(name, _UNKNOWN).labels
        return all(labels.get(key) == selector[key] for key in keys)

    def on(self, queue: ClusterQueue, resource: str, node: Node) -> str | None:
        """Returns the flavor of the resource on the node: the first flavor of the queue whose labels the node has."""
        for name in self.of(queue, resource):
            if self._is_on(self._known.get(name, _UNKNOWN), node.labels):
                return name
        return None

    def is_uniform(self, queue: ClusterQueue) -> bool:
        """Whether pods of the queue use the same quota on every node."""
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
        """Returns the first resource of which no flavor has as much left as is asked for; None if all resources
        suffice."""
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
        """Returns QUOTA_BORROWING if the queue has nominal quota of the resource, but less than the amount in each of
        its flavors; otherwise QUOTA."""
        quota = max(queue.quotas[asset].nominal if asset in queue.quotas else 0 for asset in assets)
        args = (queue.name, assets[0].resource, str(amount), str(max(0, left)))
        return Reason(Code.QUOTA_BORROWING, (*args, str(quota))) if 0 < quota < amount else Reason(Code.QUOTA, args)

    def short_on(self, queue: ClusterQueue, ask: Ask, node: Node) -> Reason | None:
        """Returns the first resource of which the flavor on the node has less left than is asked for; None if there is
        none."""
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
        """Yields the assets that the pods can be charged to, in the order of the queue's flavors. Assets of which the
        queue can never have so much are left out."""
        groups = {queue.group_of(name): name for name in ask.wanted if queue.group_of(name) is not None}
        options = [self.of(queue, name, ask.pod) for name in groups.values()]
        for chosen in islice(product(*options), _MOST_WAYS):
            flavors = dict(zip(groups, chosen, strict=True))
            assets = {Asset(flavors[queue.group_of(name)], name): amount for name, amount in ask.wanted.items()}
            if self.could_have(queue, assets):
                yield assets

    def could_have(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> bool:
        """Whether the queue could have the amounts if no other pods used quota."""
        return all(self._tree.most(queue.name, asset) >= amount for asset, amount in assets.items())

    def short_of(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> Reason | None:
        """Returns a reason for the first of the assets that the queue has too little left of; None if there is none."""
        for asset, amount in assets.items():
            left = self._tree.available(queue.name, asset)
            if amount > left:
                return self._lacking(queue, [asset], amount, left)
        return None

    def rank(self, queue: ClusterQueue, ask: Ask, node: Node) -> int:
        """Returns a score of up to 100 for the flavors of the node. Earlier flavors of the queue get a higher score. If
        the queue avoids borrowing, flavors without borrowing come first, then flavors borrowed from the closest
        cohort."""
        rank = 100
        for name, amount in ask.wanted.items():
            flavors, flavor = self.of(queue, name), self.on(queue, name, node)
            if flavor is None:
                return 0
            assets = {Asset(flavor, name): amount}
            level = min(_MOST_LEVELS, self.borrowing_level(queue, assets)) if queue.avoids_borrowing else 0
            rank = min(rank, 100 - level * _LEVEL - min(_LEVEL - 1, flavors.index(flavor)))
        return rank

    def borrowing_level(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> int:
        """Returns how many levels up the queue has to borrow for additional amounts; 0 if it need not borrow."""
        return max(
            (self._tree.borrowing_level(queue.name, asset, amount) for asset, amount in assets.items()), default=0
        )

    def first(self, queue: ClusterQueue, ways: Sequence[Mapping[Asset, int]]) -> Mapping[Asset, int]:
        """Returns the assets that are used at the moment: the first for which there is quota, or the ones borrowed from
        the closest cohort if the queue avoids borrowing; the first of `ways` if there is quota for none."""
        fitting = [assets for assets in ways if self.has_room(queue, assets)]
        if queue.avoids_borrowing and fitting:
            return min(fitting, key=lambda assets: self.borrowing_level(queue, assets))
        return next(iter(fitting or ways), {})

    def has_room(self, queue: ClusterQueue, assets: Mapping[Asset, int]) -> bool:
        return all(self._tree.available(queue.name, asset) >= amount for asset, amount in assets.items())


class KueueNodeFlavors:
    """The flavors of a ClusterQueue that pods get on a node."""

    def __init__(self, flavors: Flavors, queues: Mapping[str, ClusterQueue]) -> None:
        self._flavors = flavors
        self._queues = queues

    @property
    def is_tolerant(self) -> bool:
        return self._flavors.tolerant

    def assets(
        self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int], *, reserved: bool = False
    ) -> dict[Asset, int]:
        found = {}
        known = self._queues[queue]
        for name, amount in amounts.items():
            flavors = self._flavors.of(known, name)
            flavor = self._flavors.on(known, name, node) or (flavors[0] if flavors else "")
            found[Asset(flavor, name)] = amount
        return found

    def choice(self, ask: Ask, node: Node) -> FlavorChoice:
        queue = self._queues[ask.queue]
        flavors = tuple([self._flavors.on(queue, name, node) for name in ask.wanted])
        return FlavorChoice(flavors, self._flavors.rank(queue, ask, node))

    def tolerates(self, queue: str, node: Node, taint: Object) -> bool:
        known = self._queues.get(queue)
        return known is not None and self._flavors.tolerates(known, node, taint)

    def distinguishes(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        return self._flavors.tell_apart(labels, others)
