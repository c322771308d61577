"""Reclaiming of host-path volumes: the node removes the directory, then the volume goes.

The name of the volume is written to its Node, and noted on the volume. The agent removes the directory and takes the
name away: a volume that was noted and is no longer named by its Node can go. Each step may be done again.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, annotations_of, key_of, uid_of
from dray.api.volumes import VOLUMES_TO_REMOVE, volumes_to_remove
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.client.errors import NotFound
from dray.controllers.kinds import NODES, VOLUMES
from dray.controllers.volumes import host_path

ASKED: Final = "dray.dev/removal-asked"


class Reclaiming:
    def __init__(self, client: ApiClient, nodes: Cache) -> None:
        self._client = client
        self._nodes = nodes

    async def reclaim(self, volume: Object) -> None:
        name, node_name = key_of(volume)[1], host_path.node_name_of(volume)
        node = self._nodes.get(node_name)
        if node is None or (ASKED in annotations_of(volume) and name not in volumes_to_remove(node)):
            try:
                await self._client.delete_object(VOLUMES, volume)
            except NotFound:
                return
        elif ASKED not in annotations_of(volume):
            if name not in volumes_to_remove(node):
                await self._ask(node, name)
            notes = {"uid": uid_of(volume), "annotations": {ASKED: "yes"}}
            await self._client.patch(VOLUMES, name, {"metadata": notes})

    async def _ask(self, node: Object, name: str) -> None:
        """Adds a volume to the Node's list, at the version that was read: the agent may be removing others."""
        names = ",".join([*volumes_to_remove(node), name])
        version = node["metadata"]["resourceVersion"]
        metadata = {"resourceVersion": version, "annotations": {VOLUMES_TO_REMOVE: names}}
        await self._client.patch(NODES, key_of(node)[1], {"metadata": metadata})
