"""The claims of a pod as its node may use them: found by name, read from the API server, checked.

Nothing is recorded here, so a pod that fails a check leaves nothing behind that would have to be undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.api.catalogue import built_in
from dray.api.gates import FeatureGates
from dray.api.objects import Object, controller_of, key_of, uid_of
from dray.api.pods import claim_entries, claim_names, extended_claim, group_name
from dray.api.resource_claims import allocation_of, reserved_for, results_of
from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.node.errors import PrepareError

_CLAIMS: Final = built_in("resource.k8s.io/v1", "ResourceClaim")
_GROUPS: Final = "podgroups"


class PodClaims:
    """Reads the claims of pods with the node's permissions."""

    def __init__(self, client: ApiClient, gates: FeatureGates) -> None:
        self._client = client
        self._gates = gates

    async def usable(self, pod: Object) -> list[Object]:
        """Returns the claims of the pod, each allocated and reserved for it; raises PrepareError."""
        return [await self._usable(pod, name, generated) for name, generated in claims_to_prepare(pod)]

    async def _usable(self, pod: Object, name: str, generated: bool) -> Object:
        namespace, pod_name = key_of(pod)
        try:
            claim = await self._client.get(_CLAIMS, name, namespace=namespace)
        except ClientError as error:
            raise PrepareError(f"cannot get ResourceClaim {namespace}/{name} of pod {pod_name}: {error}") from None
        whose = f"{namespace}/{name} ({uid_of(claim)})"
        if generated and not self._is_controlled(claim, pod):
            raise PrepareError(f"ResourceClaim {whose} was not created for pod {pod_name} ({uid_of(pod)})")
        if not self._is_reserved(claim, pod):
            raise PrepareError(f"pod {pod_name} ({uid_of(pod)}) is not allowed to use ResourceClaim {whose}")
        if allocation_of(claim) is None:
            raise PrepareError(f"ResourceClaim {whose} is not allocated")
        if not self._gates["DRAOptionalNodeOperations"] and any(
            result.get("skipNodeOperations") for result in results_of(claim)
        ):
            raise PrepareError(
                f"ResourceClaim {whose} has skipNodeOperations, and feature gate DRAOptionalNodeOperations is off"
            )
        return claim

    def _is_controlled(self, claim: Object, pod: Object) -> bool:
        owner = controller_of(claim) or {}
        if owner.get("uid") == uid_of(pod):
            return True
        return self._workloads and owner.get("kind") == "PodGroup" and _is_group(owner.get("name"), pod)

    def _is_reserved(self, claim: Object, pod: Object) -> bool:
        for consumer in reserved_for(claim):
            if consumer.get("uid") == uid_of(pod):
                return True
            if self._workloads and consumer.get("resource") == _GROUPS and _is_group(consumer.get("name"), pod):
                return True
        return False

    @property
    def _workloads(self) -> bool:
        return self._gates["DRAWorkloadResourceClaims"]


def claims_to_prepare(pod: Object) -> Iterator[tuple[str, bool]]:
    """Yields the name of each claim that the pod needs, and True if the claim was made for the pod."""
    made = claim_names(pod)
    for entry in claim_entries(pod):
        if name := entry.get("resourceClaimName"):
            yield name, False
        elif entry["name"] not in made:
            namespace, name = key_of(pod)
            raise PrepareError(f"pod {namespace}/{name}, claim {entry['name']}: ResourceClaim not created yet")
        elif generated := made[entry["name"]]:
            yield generated, True
    if extended := extended_claim(pod):
        yield extended, True


def _is_group(name: object, pod: Object) -> bool:
    return bool(name) and name == group_name(pod)
