"""Volume claims of a StatefulSet's pods: made before the pod, and owned so that they go when the policy says so.

With `whenDeleted: Delete` a claim is owned by the StatefulSet, with `whenScaled: Delete` that of a pod which is one too
many by that pod; the garbage collector does the rest. Otherwise nobody owns them, and they stay.
"""

from __future__ import annotations

from dray.api.objects import Object, controller_of, is_deleting, key_of, mapping, owners_of, uid_of
from dray.client.errors import AlreadyExists, ClientError
from dray.controllers.environment import Environment
from dray.controllers.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from dray.controllers.stateful_sets import identity
from dray.controllers.stateful_sets.replicas import Replicas
from dray.controllers.workloads.pod_template import reference


class ClaimControl:
    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events
        self.informer = environment.informers.of(PERSISTENT_VOLUME_CLAIMS)

    async def ensure(self, stateful_set: Object, pod_name: str) -> bool:
        """Creates the claims of a pod. Returns False if the pod has to wait for a terminating claim."""
        is_whole = True
        for claim in identity.claims(stateful_set, pod_name):
            namespace, name = key_of(claim)
            known = self.informer.cache.get(name, namespace=namespace)
            if known is not None:
                is_whole = is_whole and not is_deleting(known)
                continue
            owners = _owners(stateful_set, None)
            if owners:
                claim["metadata"]["ownerReferences"] = owners
            about = f"Claim {name} Pod {pod_name} in StatefulSet {key_of(stateful_set)[1]}"
            try:
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace=namespace)
            except AlreadyExists:
                continue
            except ClientError as error:
                self._events.warning(stateful_set, "FailedCreate", f"create {about} failed error: {error}")
                raise
            self._events.normal(stateful_set, "SuccessfulCreate", f"create {about} success")
        return is_whole

    async def settle(self, replicas: Replicas) -> None:
        """Sets the owners that the retention policy asks for on the claims of existing pods."""
        stateful_set = replicas.stateful_set
        if not identity.claim_templates(stateful_set):
            return
        for number, pod in replicas.pods.items():
            wanted = _owners(stateful_set, None if number in replicas.wanted else pod)
            ours = {uid_of(stateful_set), uid_of(pod)}
            for claim in identity.claims(stateful_set, key_of(pod)[1]):
                namespace, name = key_of(claim)
                known = self.informer.cache.get(name, namespace=namespace)
                if known is not None and not is_deleting(known) and not _is_anothers(known, stateful_set, pod):
                    await self._own(known, wanted, ours)

    async def _own(self, claim: Object, wanted: list[Object], ours: set[str]) -> None:
        given = owners_of(claim)
        held = [(each.get("uid"), bool(each.get("controller"))) for each in given if each.get("uid") in ours]
        if held == [(each["uid"], True) for each in wanted]:
            return
        owners = [*(each for each in given if each.get("uid") not in ours), *wanted]
        metadata = {"uid": uid_of(claim), "resourceVersion": claim["metadata"]["resourceVersion"]}
        body = {"metadata": {**metadata, "ownerReferences": owners or None}}
        namespace, name = key_of(claim)
        await self._client.patch(PERSISTENT_VOLUME_CLAIMS, name, body, namespace=namespace)


def _owners(stateful_set: Object, condemned: Object | None) -> list[Object]:
    policy = mapping(stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy"))
    if condemned is not None and policy.get("whenScaled") == "Delete":
        return [reference(condemned, PODS)]
    if policy.get("whenDeleted") == "Delete":
        return [reference(stateful_set, STATEFUL_SETS)]
    return []


def _is_anothers(claim: Object, stateful_set: Object, pod: Object) -> bool:
    """Whether somebody else controls the claim, also one who had the same name as the set or the pod."""
    owner = controller_of(claim)
    return owner is not None and owner.get("uid") not in (uid_of(stateful_set), uid_of(pod))
