"""The rule for the utilization of simulated GPUs: 80 %, unless the pod's annotation says otherwise.

    simulated.dray.dev/utilization: "35"      percent while the pod uses the device
    simulated.dray.dev/utilization: "10-60"   another one every minute, by the name of the pod

The same part of the memory is in use: of the device, or of the share that the claim has. A device that no claim has is
at 0 %.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from time import time
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, annotations_of, uid_of
from dray.api.resource_claims import reserved_for
from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.driver import ClaimReference

ANNOTATION: Final = "simulated.dray.dev/utilization"
_DEFAULT: Final = 80.0
_CLAIMS: Final = built_in("resource.k8s.io/v1", "ResourceClaim")
_PODS: Final = built_in("v1", "Pod")


def simulated_ratio(annotations: Mapping[str, str], name: str, minute: int) -> float:
    """The part from 0 to 1. An annotation that cannot be read is ignored."""
    return _percent(annotations.get(ANNOTATION, ""), name, minute) / 100


def _percent(text: str, name: str, minute: int) -> float:
    least, dash, most = text.partition("-")
    try:
        low, high = float(least), float(most) if dash else float(least)
    except ValueError:
        return _DEFAULT
    if not 0 <= low <= high <= 100:
        return _DEFAULT
    return Random(f"{name}/{minute}").uniform(low, high) if dash else low


class ClaimRule:
    """Reads the annotations of the first pod of each claim, once."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._known: dict[str, Mapping[str, str]] = {}
        """Annotations by uid of the claim."""

    async def ratio(self, claim: ClaimReference) -> float:
        if claim.uid not in self._known:
            self._known[claim.uid] = await self._annotations(claim)
        return simulated_ratio(self._known[claim.uid], claim.name, int(time() // 60))

    def forget_others(self, uids: Collection[str]) -> None:
        self._known = {uid: annotations for uid, annotations in self._known.items() if uid in uids}

    async def _annotations(self, reference: ClaimReference) -> Mapping[str, str]:
        try:
            claim = await self._client.get(_CLAIMS, reference.name, namespace=reference.namespace)
            pod = await self._first_pod(claim, reference.namespace)
        except ClientError:
            return {}
        return annotations_of(pod)

    async def _first_pod(self, claim: Object, namespace: str) -> Object:
        for user in reserved_for(claim):
            if user.get("resource") == "pods":
                pod = await self._client.get(_PODS, str(user["name"]), namespace=namespace)
                if uid_of(pod) == user.get("uid"):
                    return pod
        return {}
