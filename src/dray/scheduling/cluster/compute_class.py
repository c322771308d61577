"""ComputeClass of `cloud.google.com`: rules that rank the nodes of a class, translated into node selectors.

A label assigns a node to a class. Rules refer to labels, capacity and taints of a node; `facts` adds capacity and
taints to the labels under names that no label can have. A rule consists of node selectors, all of which must match.
There is no autoscaler, so a rule is matched against single nodes, not node pools: a node must be in one of the rule's
zones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dray.api.objects import Object, bounded, mapping, mappings, status_of, strings, text
from dray.api.pod_requests import amounts
from dray.api.quantity import INT32_MAX

if TYPE_CHECKING:
    from dray.scheduling.model.node import Node

KIND: Final = "ComputeClass"
LABEL: Final = "cloud.google.com/compute-class"
"""The label of nodes, the key of their taint, and the label in the node selector of pods."""
DEFAULT: Final = "default"
"""The class of pods that name no class."""
_GKE: Final = "cloud.google.com/"
_PROVISIONING: Final = f"{_GKE}gke-provisioning"
_CPU, _MEMORY, _TPU = "capacity cpu", "capacity memory in GB", "capacity google.com/tpu"
_GB: Final = 10**9

_LABELS: Final = {
    ("machineType",): "node.kubernetes.io/instance-type",
    ("machineFamily",): f"{_GKE}machine-family",
    ("gpu", "type"): f"{_GKE}gke-accelerator",
    ("gpu", "count"): f"{_GKE}gke-accelerator-count",
    ("gpu", "driverVersion"): f"{_GKE}gke-gpu-driver-version",
    ("gpu", "gpuSharing", "gpuPartitionSize"): f"{_GKE}gke-gpu-partition-size",
    ("gpu", "gpuSharing", "maxSharedClientsPerGPU"): f"{_GKE}gke-max-shared-clients-per-gpu",
    ("tpu", "type"): f"{_GKE}gke-tpu-accelerator",
    ("tpu", "topology"): f"{_GKE}gke-tpu-topology",
    ("tpu", "count"): _TPU,
    ("maxPodsPerNode",): f"{_GKE}gke-max-pods-per-node",
    ("maxRunDurationSeconds",): f"{_GKE}gke-max-run-duration-seconds",
    ("storage", "bootDiskType"): f"{_GKE}gke-boot-disk",
    ("storage", "bootDiskSize"): f"{_GKE}gke-boot-disk-size",
    ("placement", "policyName"): f"{_GKE}placement-policy-name",
}
"""Fields of a rule that must equal a label."""
_SHARING: Final = {"MPS": "mps", "TIME_SHARING": "time-sharing"}
_ACTED_UPON: Final = frozenset(
    {path[0] for path in _LABELS}
    | {"nodepools", "priorityScore", "spot", "flexStart", "location", "minCores", "minMemoryGb", "minCpuPlatform"}
    | {"reservations", "nodeLabels", "taints"}
)
_CREATION: Final = frozenset(("capacityCheckWaitTimeSeconds", "nodeSystemConfig", "minimumCapacity"))
"""Fields of a rule that only matter for the creation of nodes."""

Selector = Object
"""A node selector over the facts of a node."""


@dataclass(frozen=True, slots=True)
class ComputeClass:
    name: str
    rules: tuple[tuple[Selector, ...], ...]
    ranks: tuple[int, ...]
    """The ranks of the rules: 0 is the best; rules with equal scores have equal ranks."""
    config: tuple[Selector, ...]
    """Selectors that every node of the class must match."""
    strict: bool
    """Whether nodes that match no rule are rejected."""
    ignored: tuple[str, ...]
    """Fields that have no effect here."""

    @property
    def last(self) -> int:
        """The rank of nodes that match no rule."""
        return max(self.ranks, default=-1) + 1


def read(document: Object) -> ComputeClass:
    spec = mapping(document.get("spec"))
    rules = mappings(spec.get("priorities"))
    defaults = mapping(spec.get("priorityDefaults"))
    return ComputeClass(
        document["metadata"]["name"],
        tuple(tuple(_parts(rule, defaults)) for rule in rules),
        _ranks(rules),
        tuple(_config(mapping(spec.get("nodePoolConfig")))),
        spec.get("whenUnsatisfiable") != "ScaleUpAnyway",
        tuple(_ignored(spec, rules)),
    )


def ignored(document: Object) -> tuple[str, ...]:
    return read(document).ignored


def facts(node: Node) -> Mapping[str, str]:
    """The labels of a node, and its capacity and taints under additional names."""
    capacity = amounts(status_of(node.document or {}).get("capacity"))
    values = dict(node.labels)
    for taint in node.taints:
        values[_taint_name(taint)] = "present"
    values[_CPU] = str((capacity.get("cpu") or node.allocatable.get("cpu", 0)) // 1000)
    values[_MEMORY] = str((capacity.get("memory") or node.allocatable.get("memory", 0)) // _GB)
    tpus = node.allocatable.get("google.com/tpu")
    values[_TPU] = str(tpus) if tpus else node.labels.get(f"{_GKE}gke-accelerator-count", "0")
    return values


def _ranks(rules: list[Object]) -> tuple[int, ...]:
    scores = [bounded(rule.get("priorityScore"), 0, INT32_MAX) for rule in rules]
    if not all(scores):
        return tuple(range(len(rules)))
    groups = sorted(set(scores), reverse=True)
    return tuple(map(groups.index, scores))


def _parts(rule: Object, defaults: Object) -> Iterator[Selector]:
    if pools := strings(rule.get("nodepools")):
        yield _any(_in(f"{_GKE}gke-nodepool", *pools))
        return
    rule = {**{name: defaults[name] for name in ("location",) if name in defaults}, **rule}
    for path, label in _LABELS.items():
        if (value := _at(rule, *path)) is not None:
            yield _any(_in(label, str(value)))
    for read_part in _PARTS:
        yield from read_part(rule)


def _provisioning(rule: Object) -> Iterator[Selector]:
    spot, flex = rule.get("spot"), mapping(rule.get("flexStart")).get("enabled")
    for wanted, label, value in ((spot, "gke-spot", "spot"), (flex, "gke-flex-start", "flex-start")):
        if wanted is True:
            yield _any(_in(f"{_GKE}{label}", "true"), _in(_PROVISIONING, value))
        elif wanted is False:
            yield _all(_not_in(f"{_GKE}{label}", "true"), _not_in(_PROVISIONING, value))


def _accelerators(rule: Object) -> Iterator[Selector]:
    strategy = _at(rule, "gpu", "gpuSharing", "sharingStrategy")
    if strategy is not None:
        yield _any(_in(f"{_GKE}gke-gpu-sharing-strategy", _SHARING.get(str(strategy), str(strategy))))


def _machine(rule: Object) -> Iterator[Selector]:
    for member, name in (("minCores", _CPU), ("minMemoryGb", _MEMORY)):
        if least := bounded(rule.get(member), 0, INT32_MAX):
            yield _any({"key": name, "operator": "Gt", "values": [str(least - 1)]})
    if platform := text(rule.get("minCpuPlatform")):
        yield _any(_in(f"supported-cpu-platform.{_GKE}{platform.replace(' ', '_')}", "true"))
    if disks := _at(rule, "storage", "localSSDCount"):
        yield _any(_in(f"{_GKE}gke-ephemeral-storage-local-ssd", str(disks), "true"))


def _place(rule: Object) -> Iterator[Selector]:
    if zones := strings(mapping(rule.get("location")).get("zones")):
        yield _any(_in("topology.kubernetes.io/zone", *zones))
    wanted = mapping(rule.get("reservations"))
    if wanted.get("affinity") == "None":
        yield _any({"key": f"{_GKE}reservation-name", "operator": "DoesNotExist"})
    elif specific := mappings(wanted.get("specific")):
        yield {"nodeSelectorTerms": [{"matchExpressions": list(_reservation(item))} for item in specific]}


def _reservation(wanted: Object) -> Iterator[Object]:
    block = mapping(wanted.get("reservationBlock"))
    for label, value in (
        ("reservation-name", wanted.get("name")),
        ("reservation-project", wanted.get("project")),
        ("reservation-blocks", block.get("name")),
        ("reservation-subblocks", mapping(block.get("reservationSubBlock")).get("name")),
    ):
        if value:
            yield _in(f"{_GKE}{label}", str(value))


def _own(rule: Object) -> Iterator[Selector]:
    """Labels and taints that nodes are created with."""
    for key, value in mapping(rule.get("nodeLabels")).items():
        yield _any(_in(key, str(value)))
    for taint in mappings(rule.get("taints")):
        yield _any(_in(_taint_name(taint), "present"))


def _config(config: Object) -> Iterator[Selector]:
    yield from _own(config)
    if kind := text(config.get("confidentialNodeType")):
        yield _any(_in(f"{_GKE}gke-confidential-nodes-instance-type", kind))
    if config.get("ipType") == "private":
        yield _any(_in(f"{_GKE}private-node", "true"))


_PARTS: Final[tuple[Callable[[Object], Iterator[Selector]], ...]] = (
    _provisioning,
    _accelerators,
    _machine,
    _place,
    _own,
)


def _ignored(spec: Object, rules: list[Object]) -> Iterator[str]:
    if mapping(spec.get("activeMigration")).get("optimizeRulePriority"):
        yield "spec.activeMigration"
    if mapping(spec.get("nodePoolAutoCreation")).get("enabled"):
        yield "spec.nodePoolAutoCreation"
    for name in sorted({name for rule in rules for name in rule} - _ACTED_UPON - _CREATION):
        yield f"spec.priorities[].{name}"
    if any(mapping(rule.get("flexStart")).get("nodeRecycling") for rule in rules):
        yield "spec.priorities[].flexStart.nodeRecycling"
    if any(mapping(rule.get("location")).get("zoneTypes") for rule in rules):
        yield "spec.priorities[].location.zoneTypes"


def _at(rule: Object, *path: str) -> Any:
    """The value at a path of a rule; None if it is missing, or neither a string nor a number."""
    value: Any = rule
    for name in path:
        value = mapping(value).get(name)
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _taint_name(taint: Object) -> str:
    return f"taint {text(taint.get('key'))}={text(taint.get('value'))}:{text(taint.get('effect'))}"


def _in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}


def _not_in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _any(*requirements: Object) -> Selector:
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]} for requirement in requirements]}


def _all(*requirements: Object) -> Selector:
    return {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}
