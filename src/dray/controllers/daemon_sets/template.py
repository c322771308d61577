"""A pod of a DaemonSet for one node: bound to it by node affinity, with the tolerations that all daemons have."""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, mapping, mappings
from dray.api.pods import node_of
from dray.controllers.kinds import DAEMON_SETS
from dray.controllers.workloads import pod_template
from dray.controllers.workloads.revisions import HASH_LABEL

_NAME: Final = "metadata.name"
_PREFIX: Final = "node.kubernetes.io/"
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(daemon_set: Object, node: str, revision: str) -> Object:
    made = pod_template.pod(daemon_set, DAEMON_SETS, daemon_set["spec"]["template"])
    made["metadata"]["labels"] = {**made["metadata"].get("labels", {}), HASH_LABEL: revision}
    spec = made["spec"]
    spec["affinity"] = _to_node(mapping(spec.get("affinity")), node)
    spec["tolerations"] = tolerations(spec)
    return made


def tolerations(spec: Object) -> list[Object]:
    """Returns the template's tolerations and those that every daemon pod gets: it stays on troubled nodes."""
    names = list(_TOLERATED)
    if spec.get("hostNetwork"):
        names.append(("network-unavailable", "NoSchedule"))
    added = [{"key": _PREFIX + name, "operator": "Exists", "effect": effect} for name, effect in names]
    given = [toleration for toleration in spec.get("tolerations") or () if toleration not in added]
    return [*given, *added]


def _to_node(affinity: Object, node: str) -> Object:
    """Requires one node by name; replaces the required terms of the template, which this node satisfies."""
    term = {"matchFields": [{"key": _NAME, "operator": "In", "values": [node]}]}
    of_nodes = {**mapping(affinity.get("nodeAffinity")), _REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": of_nodes}


def target(pod: Object) -> str:
    """Returns the node that a pod is bound to or was created for; "" if there is none."""
    if node_of(pod):
        return node_of(pod)
    affinity = mapping(mapping(mapping(pod["spec"].get("affinity")).get("nodeAffinity")).get(_REQUIRED))
    for term in mappings(affinity.get("nodeSelectorTerms")):
        for field in mappings(term.get("matchFields")):
            values = field.get("values") or []
            if field.get("key") == _NAME and field.get("operator") == "In" and len(values) == 1:
                return str(values[0])
    return ""
