"""Nodes and pods as the scheduler models them, and terms of affinity and spreading."""

from __future__ import annotations

from typing import Any

from dray.allocation import Work
from dray.api.objects import Object
from dray.scheduling.core.cycle import NO_CLAIMS, Cycle
from dray.scheduling.core.framework import Framework
from dray.scheduling.model.messages import reason_text
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.signatures import Signatures
from dray.testing import objects

SIGNATURES = Signatures()
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(name: str = "n", number: int = 0, *, labels: Object | None = None, **members: Any) -> Node:
    """`members`: taints, unschedulable, images, and amounts by resource (dashes as underscores)."""
    spec = {key: members.pop(key) for key in ("taints", "unschedulable") if key in members}
    images = [{"names": [image], "sizeBytes": size} for image, size in members.pop("images", {}).items()]
    amounts = {key.replace("_", "-"): value for key, value in members.items()}
    made = Node(name, number)
    document = objects.node(name, allocatable=amounts, status={"images": images}, **spec)
    made.read({**document, "metadata": {"name": name, "labels": labels or {}}})
    return made


def document(name: str = "p", *, namespace: str = "default", **members: Any) -> Object:
    return objects.pod(name, namespace=namespace, **{"labels": {}, **members})


def container(name: str = "c", **requests: str) -> Object:
    return objects.container(name, requests=requests)


def pod(name: str = "p", **members: Any) -> Pod:
    made = document(name, **members)
    return Pod((made["metadata"]["namespace"], name), f"uid-{name}", made, SIGNATURES.requirements(made), 0, True, "")


def attempt(framework: Framework, asking: Pod) -> Cycle:
    """Past the prefilter."""
    cycle = Cycle(asking, 0.0, Work(), NO_CLAIMS)
    assert framework.prefilter(cycle) is None
    return cycle


def reasons(framework: Framework, asking: Pod, there: Node) -> tuple[str, ...]:
    """Why the node does not fit."""
    status = framework.filter(attempt(framework, asking), there)
    return tuple(map(reason_text, status.reasons)) if status is not None else ()


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
