"""Manifests that `dray up` applies at its start, before anything works on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from dray.answers.manifests.reading import Manifest
from dray.cli.apply import FIELD_MANAGER, apply_manifests
from dray.cli.cluster import Cluster
from dray.cli.rest_mapping import Target

if TYPE_CHECKING:
    from dray.client.transport import Transport


async def apply_first(transport: Transport, manifests: list[Manifest]) -> Counter[str] | None:
    """How many of each kind; None if the server refused any."""
    from dray.client.interface import WriteOptions

    options = WriteOptions(FIELD_MANAGER, "Strict", force=True)
    counts: Counter[str] = Counter()
    cluster = Cluster(transport, "default", insists=False)
    # A node's status is written by itself, with what its manifest leaves out.
    nodes = {entry.name: entry.document for entry in manifests if _is_node(entry)}

    async def count(manifest: Manifest, target: Target, outcome: str) -> None:
        counts[target.kind.plural] += 1
        if _is_node(manifest):
            from dray.controllers import bare_nodes

            await bare_nodes.set_node_status(cluster.client, target.kind, nodes[manifest.name], options)

    plain = [_without_status(entry) if _is_node(entry) else entry for entry in manifests]
    return counts if await apply_manifests(cluster, plain, options, count) else None


def _is_node(manifest: Manifest) -> bool:
    return (manifest.api_version, manifest.kind) == ("v1", "Node")


def _without_status(manifest: Manifest) -> Manifest:
    return replace(manifest, document={name: each for name, each in manifest.document.items() if name != "status"})
