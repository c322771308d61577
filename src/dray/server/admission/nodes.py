"""Admission of nodes: a new one is tainted until somebody says that it is ready."""

from __future__ import annotations

from dray.server.admission.attributes import Attributes

NOT_READY = "node.kubernetes.io/not-ready"


def taint_unready(attributes: Attributes) -> None:
    if attributes.kind != ("", "Node"):
        return
    taints = attributes.obj["spec"].setdefault("taints", [])
    if not any(taint["key"] == NOT_READY and taint["effect"] == "NoSchedule" for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})
