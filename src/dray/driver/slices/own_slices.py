"""The slices of this driver as they are stored: an informer's cache, and what was written since it was told.

Without the latter a slice that was just created would be created again.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.api.objects import Object, mapping, metadata_of, owners_of, spec_of, version_number, version_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.informer import Informer
from dray.client.interface import Selection
from dray.driver.slices.kinds import RESOURCE_SLICES


class OwnSlices:
    """`changed` is called with the name of a pool when somebody else has changed one of its slices.

    A driver of a node owns the slices of the node. With `wide` it also owns slices without node that its node owns;
    to find them it must watch the slices of all nodes. A driver without node owns all slices without node.
    """

    def __init__(
        self, client: ApiClient, driver: str, node_name: str, *, wide: bool, changed: Callable[[str], None]
    ) -> None:
        self._node_name = node_name
        narrow = "" if wide or not node_name else f",spec.nodeName={node_name}"
        self._informer = Informer(client, RESOURCE_SLICES, selection=Selection(fields=f"spec.driver={driver}{narrow}"))
        self._written: dict[str, Object] = {}
        self._deleted: dict[str, str] = {}
        """Name and uid of what was deleted here and is in the cache still."""
        self._changed = changed
        self._informer.add_handler(self._take)
        self._informer.on_list(self._listed)

    async def run(self) -> None:
        await self._informer.run()

    async def synced(self) -> None:
        await self._informer.synced()

    def pools(self) -> dict[str, list[Object]]:
        """By name of the pool."""
        present = {slice_["metadata"]["name"]: slice_ for slice_ in self._informer.cache if self._is_own(slice_)}
        for name, written in self._written.items():
            known = present.get(name)
            if known is None or version_of(known) < version_of(written):
                present[name] = written
        found: dict[str, list[Object]] = {}
        for name, each in present.items():
            if self._deleted.get(name) != metadata_of(each).get("uid"):
                found.setdefault(_pool_of(each), []).append(each)
        return found

    def wrote(self, stored: Object) -> None:
        self._written[stored["metadata"]["name"]] = stored

    def deleted(self, stored: Object) -> None:
        name = stored["metadata"]["name"]
        self._written.pop(name, None)
        self._deleted[name] = stored["metadata"]["uid"]

    def _is_own(self, each: Object) -> bool:
        node = spec_of(each).get("nodeName") or ""
        if node or not self._node_name:
            return node == self._node_name
        return any(owner.get("kind") == "Node" and owner.get("name") == self._node_name for owner in owners_of(each))

    def _take(self, change: Change) -> None:
        name = change.key[1]
        written = self._written.get(name)
        if written is not None and version_of(change.object) >= version_of(written):
            del self._written[name]
            if change.type != "DELETED" and version_of(change.object) == version_of(written):
                return
        if change.type == "DELETED" and self._deleted.pop(name, "") == metadata_of(change.object).get("uid"):
            return
        if self._is_own(change.object):
            self._changed(_pool_of(change.object))

    def _listed(self) -> None:
        """Forgets written slices that are missing from a newer list, and deletions that the list confirms."""
        version = version_number(self._informer.resource_version)
        self._written = {name: each for name, each in self._written.items() if version_of(each) > version}
        present = {slice_["metadata"]["name"] for slice_ in self._informer.cache}
        self._deleted = {name: uid for name, uid in self._deleted.items() if name in present}


def _pool_of(each: Object) -> str:
    return str(mapping(spec_of(each).get("pool")).get("name") or "")
