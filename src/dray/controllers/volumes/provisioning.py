"""Provisioning of volumes for claims: as directories of nodes, or by whoever else the class of a claim names."""

from __future__ import annotations

from dray.api.objects import Object, annotations_of, key_of, uid_of
from dray.api.tables.storage import is_default
from dray.api.volumes import HOST_PATH_PROVISIONER, SELECTED_NODE, STORAGE_PROVISIONER, VOLUME_DIRECTORY
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.client.errors import AlreadyExists
from dray.controllers.kinds import CLAIMS_FOR_VOLUMES, STORAGE_CLASSES, VOLUMES
from dray.controllers.volumes import host_path
from dray.controllers.volumes.decisions import Act, ClaimDecision


class Provisioning:
    def __init__(self, client: ApiClient, classes: Cache, nodes: Cache) -> None:
        self._client = client
        self._classes = classes
        self._nodes = nodes

    async def make_class(self) -> None:
        """Creates the host-path storage class if it is missing; it is the default if there is no other."""
        if self._classes.get(host_path.CLASS_NAME) is not None:
            return
        made = host_path.storage_class(default=not any(map(is_default, self._classes)))
        try:
            await self._client.create(STORAGE_CLASSES, made)
        except AlreadyExists:
            return

    async def provision(self, claim: Object, storage_class: Object) -> Object | ClaimDecision:
        """Provisions a volume that is reserved for the claim; returns a WAIT decision if that is not possible now."""
        provisioner = storage_class["provisioner"]
        if annotations_of(claim).get(STORAGE_PROVISIONER) != provisioner:
            claim = await self._annotate(claim, {STORAGE_PROVISIONER: provisioner})
        if provisioner != HOST_PATH_PROVISIONER:
            message = f"Waiting for a volume to be created by the external provisioner '{provisioner}'."
            return ClaimDecision(Act.WAIT, reason="ExternalProvisioning", message=message)
        node = annotations_of(claim).get(SELECTED_NODE) or self._any_node()
        try:
            made = host_path.volume_for(claim, storage_class, self._nodes.get(node), node)
        except host_path.NotProvisioned as error:
            # Without it the scheduler looks for another node.
            if SELECTED_NODE in annotations_of(claim):
                await self._annotate(claim, {SELECTED_NODE: None})
            return ClaimDecision(Act.WAIT, reason="ProvisioningFailed", message=str(error), warn=True)
        try:
            return await self._client.create(VOLUMES, made)
        except AlreadyExists:
            return made

    def _any_node(self) -> str:
        """Returns the first node by name that has a volume directory; "" if there is none."""
        names = (key_of(node)[1] for node in self._nodes if VOLUME_DIRECTORY in annotations_of(node))
        return min(names, default="")

    async def _annotate(self, claim: Object, notes: Object) -> Object:
        namespace, name = key_of(claim)
        metadata = {"uid": uid_of(claim), "annotations": notes}
        return await self._client.patch(CLAIMS_FOR_VOLUMES, name, {"metadata": metadata}, namespace=namespace)
