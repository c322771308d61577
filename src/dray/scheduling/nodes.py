"""Reads a Node object into what the scheduler keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api.objects import Object, bounded, mapping, mappings, strings
from dray.api.pod_requests import amounts
from dray.api.quantity import INT64_MAX
from dray.scheduling.model import Node

DEFAULT_CAPACITY: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}
"""Of a node that was written by hand and does not say."""


def read(node: Node, document: Object) -> None:
    """Takes everything that the document says; what the pods take stays as it is."""
    spec, status = mapping(document.get("spec")), mapping(document.get("status"))
    allocatable, images = amounts(status.get("allocatable")), _images(status)
    node.document = document
    node.labels = mapping(mapping(document.get("metadata")).get("labels"))
    node.taints = tuple(mappings(spec.get("taints")))
    node.unschedulable = spec.get("unschedulable") is True
    node.allocatable = allocatable
    node.images = images


def _images(status: Object) -> Mapping[str, int]:
    sizes = {}
    for image in mappings(status.get("images")):
        size = bounded(image.get("sizeBytes"), 0, INT64_MAX)
        for name in strings(image.get("names")):
            sizes[name] = size
    return sizes
