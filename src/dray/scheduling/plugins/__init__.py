"""The scheduler's plugins, one module each, with Kubernetes' names where Kubernetes has such a plugin.

`default_plugins` lists them in the order in which they are asked. `pod_claims` is a part of `DynamicResources`.

May import: `plugin`, `core` and what it may import.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.allocation import FIRST_FIT, KUBERNETES, PACK, PACK_POWER, SPREAD, Policy
from dray.scheduling.core.state import State
from dray.scheduling.plugin import Plugin
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.plugins.gang_scheduling import GangScheduling
from dray.scheduling.plugins.gpu_fractions import GpuFractions
from dray.scheduling.plugins.image_locality import ImageLocality
from dray.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from dray.scheduling.plugins.kind_discovery import KindDiscovery
from dray.scheduling.plugins.node_affinity import NodeAffinity
from dray.scheduling.plugins.node_class_ranking import NodeClassRanking
from dray.scheduling.plugins.node_ports import NodePorts
from dray.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from dray.scheduling.plugins.node_resources_fit import NodeResourcesFit
from dray.scheduling.plugins.node_unschedulable import NodeUnschedulable
from dray.scheduling.plugins.pod_topology_spread import PodTopologySpread
from dray.scheduling.plugins.preferences.device_packing import OTHER_SCORES, DevicePacking, DeviceSpreading
from dray.scheduling.plugins.preferences.node_order import NodeOrder
from dray.scheduling.plugins.queue_quota import QueueQuota
from dray.scheduling.plugins.scheduling_gates import SchedulingGates
from dray.scheduling.plugins.taint_toleration import TaintToleration
from dray.scheduling.plugins.volume_binding import VolumeBinding
from dray.scheduling.plugins.volume_zone import VolumeZone


def default_plugins(
    state: State, *, policy: Policy, binding_timeout: float, more: Sequence[Plugin] = ()
) -> list[Plugin]:
    """Returns the plugins in the order in which they are asked. `more` are plugins of users.

    Plugins that reject a pod before any node is asked come first, then cheap filters before expensive ones. Quota is
    checked after the filters of nodes, and the search for devices comes last, since it costs most.
    """
    plugins: list[Plugin] = [
        SchedulingGates(),
        KindDiscovery(state),
        GangScheduling(state),
        GpuFractions(state),
        NodeUnschedulable(),
        TaintToleration(state),
        NodeAffinity(),
        NodeClassRanking(state),
        NodePorts(),
        NodeResourcesFit(),
        VolumeBinding(state),
        VolumeZone(),
        PodTopologySpread(state),
        InterPodAffinity(state),
        QueueQuota(state),
        *more,
        DynamicResources(state, policy, binding_timeout),
        NodeResourcesBalancedAllocation(),
        ImageLocality(state),
    ]
    if policy is SPREAD:
        return [*plugins, DeviceSpreading(state)]
    if policy is FIRST_FIT:
        return [*plugins, NodeOrder()]
    if policy in (PACK, PACK_POWER):
        return [*plugins, DevicePacking(state, power=policy is PACK_POWER)]
    return plugins


def score_weights(plugins: Sequence[Plugin], policy: Policy) -> dict[str, int]:
    """The weights of scores, by the name of the plugin, that are not the plugin's own."""
    if policy is FIRST_FIT:
        return {plugin.name: int(plugin.name == NodeOrder.name) for plugin in plugins}
    if policy not in (PACK, PACK_POWER):
        return {}
    spreading = {NodeResourcesFit.name, NodeResourcesBalancedAllocation.name}
    weights = {plugin.name: 0 if plugin.name in spreading else OTHER_SCORES * plugin.weight for plugin in plugins}
    return {**weights, DevicePacking.name: 1}


def names() -> frozenset[str]:
    """The names of all plugins of the scheduler, in use or not."""
    policies = (KUBERNETES, PACK, SPREAD, FIRST_FIT)
    own = [default_plugins(State(), policy=policy, binding_timeout=0) for policy in policies]
    return frozenset(plugin.name for plugins in own for plugin in plugins)
