"""Rows of Deployments, ReplicaSets, ReplicationControllers and PodTemplates."""

from __future__ import annotations

from dray.api.label_selectors import text_of
from dray.api.objects import Object, labels_of, spec_of
from dray.api.tables.cluster import template_containers
from dray.api.tables.column import AGE, NAME, NONE, Cell, Column
from dray.api.tables.sets import SELECTOR, WIDE, counted, ready


def _in_template(cell: Cell) -> Cell:
    """Applies a cell of workloads to a PodTemplate."""
    return lambda obj, now: cell({"spec": obj}, now)


def _plain_selector(obj: Object, now: str) -> str:
    return text_of({"matchLabels": spec_of(obj).get("selector")}) or NONE


_REPLICAS = (
    NAME,
    Column("Desired", lambda obj, now: spec_of(obj).get("replicas") or 0, type="integer"),
    Column("Current", counted("replicas"), type="integer"),
    Column("Ready", counted("readyReplicas"), type="integer"),
    AGE,
    *WIDE,
)

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("apps", "Deployment"): (
        NAME,
        Column("Ready", ready),
        Column("Up-to-date", counted("updatedReplicas"), type="integer"),
        Column("Available", counted("availableReplicas"), type="integer"),
        AGE,
        *WIDE,
        SELECTOR,
    ),
    ("apps", "ReplicaSet"): (*_REPLICAS, SELECTOR),
    ("", "ReplicationController"): (*_REPLICAS, Column("Selector", _plain_selector, wide=True)),
    ("", "PodTemplate"): (
        NAME,
        Column("Containers", _in_template(template_containers("name"))),
        Column("Images", _in_template(template_containers("image"))),
        Column("Pod Labels", lambda obj, now: text_of({"matchLabels": labels_of(obj["template"])}) or NONE),
    ),
}
