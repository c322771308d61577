"""Where a node stands: its rack by the labels in common use, or what comes nearest; and whether it takes pods."""

from __future__ import annotations

import re
from typing import Final

from dray.api.objects import Object, is_true, key_of, labels_of, spec_of

_RACK_LABELS: Final = (
    "topology.kubernetes.io/rack",
    "topology.dray.dev/rack",
    "cloud.provider.com/topology-rack",
    "cloud.google.com/gce-topology-subblock",
    "topology.k8s.aws/network-node-layer-3",
    "nvidia.com/gpu.clique",
)
_NUMBER: Final = re.compile(r"[-.]?\d+$")


def rack_of(node: Object) -> str:
    """Returns the rack by label, or else the node's name without its number, which nodes of a pool share."""
    labels = labels_of(node)
    for name in _RACK_LABELS:
        if value := labels.get(name):
            return str(value)
    name = key_of(node)[1]
    return _NUMBER.sub("", name) or name


def node_state(node: Object) -> int:
    """Returns 0 if the node takes pods, 1 if it is not ready, 2 if it is cordoned."""
    if not is_true(node, "Ready"):
        return 1
    return 2 if spec_of(node).get("unschedulable") else 0
