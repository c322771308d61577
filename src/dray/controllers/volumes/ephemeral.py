"""The controller `ephemeral-volume`: a pod with an ephemeral volume has a claim of its own, made from the template.

The pod owns the claim, so the garbage collector takes it away with the pod. A claim of that name that belongs to
somebody else is left alone; the pod waits, and says why.
"""

from __future__ import annotations

from dray.api.objects import Key, Object, controller_reference, is_deleting, key_of, mapping, mappings, spec_of
from dray.api.pods import is_terminal
from dray.client.cache import Change
from dray.client.errors import AlreadyExists
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import CLAIMS_FOR_VOLUMES, PODS


class EphemeralVolumes(QueueController[Key]):
    """Creates claims for ephemeral volumes. Keys are namespace and name of pods."""

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._workers = environment.workers("ephemeral volumes", self.reconcile, called=named("Pod"), count=2)
        self._claims = environment.informers.of(CLAIMS_FOR_VOLUMES)
        self._pods = environment.informers.of(PODS)
        self._pods.add_handler(self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
        if change.type == "ADDED" and any(
            "ephemeral" in volume for volume in mappings(spec_of(change.object).get("volumes"))
        ):
            self._workers.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key[1], namespace=key[0])
        if pod is None or is_deleting(pod) or is_terminal(pod):
            return None
        for made in claims_for(pod):
            if self._claims.cache.get(key_of(made)[1], namespace=key[0]) is None:
                try:
                    await self._client.create(CLAIMS_FOR_VOLUMES, made)
                except AlreadyExists:
                    continue
        return None


def claims_for(pod: Object) -> list[Object]:
    """Builds the claims for the pod's ephemeral volumes."""
    namespace, name = key_of(pod)
    owner = {**controller_reference("v1", "Pod", pod), "blockOwnerDeletion": True}
    found = []
    for volume in mappings(spec_of(pod).get("volumes")):
        template = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
        if not template:
            continue
        given = mapping(template.get("metadata"))
        metadata: Object = {"name": f"{name}-{volume['name']}", "namespace": namespace, "ownerReferences": [owner]}
        metadata |= {member: given[member] for member in ("labels", "annotations") if given.get(member)}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        found.append({**kind, "metadata": metadata, "spec": dict(mapping(template.get("spec")))})
    return found
