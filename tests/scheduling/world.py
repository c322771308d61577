"""Nodes and pods for the tests of the pure scheduler."""

from __future__ import annotations

from typing import Any

from dray.api.objects import Object
from dray.scheduling import nodes
from dray.scheduling.model import Node, Pod
from dray.scheduling.needs import Kinds

KINDS = Kinds()
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(name: str = "n", number: int = 0, *, labels: Object | None = None, **members: Any) -> Node:
    """`members`: taints, unschedulable, images, and amounts by resource (dashes as underscores)."""
    spec = {key: members.pop(key) for key in ("taints", "unschedulable") if key in members}
    images = [{"names": [image], "sizeBytes": size} for image, size in members.pop("images", {}).items()]
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", **{k.replace("_", "-"): v for k, v in members.items()}}
    made = Node(name, number)
    nodes.read(
        made,
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": spec,
            "status": {"allocatable": allocatable, "images": images},
        },
    )
    return made


def document(name: str = "p", *, namespace: str = "default", labels: Object | None = None, **spec: Any) -> Object:
    spec.setdefault("containers", [container()])
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec}


def container(name: str = "c", **requests: str) -> Object:
    return {"name": name, "image": "busybox", "resources": {"requests": requests}}


def pod(name: str = "p", **members: Any) -> Pod:
    made = document(name, **members)
    return Pod((made["metadata"]["namespace"], name), f"uid-{name}", made, KINDS.needs(made), 0, True, "")


def term(key: str = HOSTNAME, match: Object | None = None, **members: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": match or {}}, **members}


def near(*terms: Object, preferred: tuple[tuple[int, Object], ...] = ()) -> Object:
    return {"podAffinity": _rules(terms, preferred)}


def apart(*terms: Object, preferred: tuple[tuple[int, Object], ...] = ()) -> Object:
    return {"podAntiAffinity": _rules(terms, preferred)}


def _rules(terms: tuple[Object, ...], preferred: tuple[tuple[int, Object], ...]) -> Object:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": list(terms),
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "podAffinityTerm": each} for weight, each in preferred
        ],
    }


def spread(key: str = ZONE, match: Object | None = None, **members: Any) -> Object:
    hard = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologyKey": key, "labelSelector": {"matchLabels": match or {}}, **hard, **members}
