"""Claims for volumes (PersistentVolumeClaims), as far as the scheduler looks at them: whether those of a pod exist.

Which nodes can reach a volume is not considered.
"""

from __future__ import annotations

from typing import Final

from dray.api.shapes import mapping, objects
from dray.scheduling.interests import waiting_key
from dray.scheduling.model import Key, Object, key_of

PLURAL: Final = "persistentvolumeclaims"


class VolumeClaims:
    def __init__(self) -> None:
        self.known = False
        """Whether it is known which there are; until then nobody waits for one."""
        self._claims: dict[Key, Object] = {}

    def put(self, claim: Object) -> None:
        self._claims[key_of(claim)] = claim

    def remove(self, claim: Object) -> None:
        self._claims.pop(key_of(claim), None)

    def problem(self, pod: Object) -> tuple[str, Key] | None:
        """What is wrong with the first of the pod's claims that cannot be used, in the words of Kubernetes, and the key
        by which to wait for it."""
        volumes = pod["spec"].get("volumes")
        if not volumes or not self.known:
            return None
        namespace = pod["metadata"].get("namespace") or ""
        for volume in objects(volumes):
            if name := _claim_name(pod, volume):
                text = self._problem(pod, self._claims.get((namespace, name)), name, own="ephemeral" in volume)
                if text:
                    return text, waiting_key(PLURAL, (namespace, name))
        return None

    def _problem(self, pod: Object, claim: Object | None, name: str, *, own: bool) -> str:
        if claim is None and own:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if mapping(claim.get("status")).get("phase") == "Lost":
            volume = mapping(claim.get("spec")).get("volumeName") or ""
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if claim["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if own and not _belongs(claim, pod):
            namespace, of = pod["metadata"].get("namespace") or "", pod["metadata"]["name"]
            return f"PVC {namespace}/{name} was not created for pod {namespace}/{of} (pod is not owner)"
        return ""


def _claim_name(pod: Object, volume: Object) -> str:
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume.get('name')}"
    return str(mapping(volume.get("persistentVolumeClaim")).get("claimName") or "")


def _belongs(claim: Object, pod: Object) -> bool:
    owners = objects(claim["metadata"].get("ownerReferences"))
    return any(each.get("controller") and each.get("uid") == pod["metadata"].get("uid") for each in owners)
