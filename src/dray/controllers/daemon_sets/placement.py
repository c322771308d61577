"""The nodes on which a DaemonSet runs: those that its template's node selector, affinity and tolerations allow."""

from __future__ import annotations

from typing import Final, NamedTuple

from dray.allocation import node_selectors, taints
from dray.api.objects import Object, labels_of, mapping, spec_of
from dray.controllers.daemon_sets.template import tolerations
from dray.scheduling.model.tolerations import Tolerations, is_repelled


class Placement(NamedTuple):
    runs: bool
    """True if a pod must be created on the node."""
    stays: bool
    """True if an existing pod may stay on the node."""


_NOWHERE: Final = Placement(False, False)


class Requirements:
    """The node requirements of a pod template, read once for all nodes."""

    def __init__(self, daemon_set: Object) -> None:
        spec = spec_of(daemon_set["spec"]["template"])
        self._node = spec.get("nodeName") or ""
        self._labels = mapping(spec.get("nodeSelector"))
        affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
        self._selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        self._tolerations = Tolerations(tolerations(spec))

    def place(self, node: Object) -> Placement:
        name, labels = node["metadata"]["name"], labels_of(node)
        if self._node not in ("", name):
            return _NOWHERE
        if any(labels.get(key) != value for key, value in self._labels.items()):
            return _NOWHERE
        if self._selector is not None and not node_selectors.selects(self._selector, name, labels):
            return _NOWHERE
        given = spec_of(node).get("taints") or ()
        if not is_repelled(given, self._tolerations):
            return Placement(True, True)
        evicted = any(
            taint.get("effect") == "NoExecute" and not self._tolerations.cover(taint)
            for taint in taints.effective(given)
        )
        return Placement(False, not evicted)
