"""ConfigMaps, Secrets, tokens and volumes that pods of a node use, read from the API server when a pod needs them.

A token is asked for again when four fifths of its life, or a day, are over.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, mapping, metadata_of, spec_of, uid_of
from dray.api.validation.persistent_volumes import volume_source
from dray.api.volumes import is_bound
from dray.client.api import ApiClient
from dray.client.clock import TimeOfDay, moment, steady_seconds
from dray.client.errors import NotFound
from dray.node.errors import SetupError

_KINDS: Final = {"ConfigMap": built_in("v1", "ConfigMap"), "Secret": built_in("v1", "Secret")}
_CLAIMS: Final = built_in("v1", "PersistentVolumeClaim")
_VOLUMES: Final = built_in("v1", "PersistentVolume")
_FAILED: Final = "FailedMount"
_REMEDY: Final = "create it, or correct the name"
_ACCOUNTS: Final = built_in("v1", "ServiceAccount")


_FRESH: Final = 0.8
_LONGEST_FRESH: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    fresh_until: float
    """Time on the monotonic clock of the agent until which the token is reused."""


class PodObjects:
    def __init__(self, client: ApiClient, time: TimeOfDay) -> None:
        self._client = client
        self._time = time
        self._steady = steady_seconds(time)
        # By pod uid, audience and requested seconds.
        self._tokens: dict[tuple[str, str, int], _Token] = {}

    async def data(self, kind: str, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes] | None:
        """Returns the data of a ConfigMap or Secret by key; None if it is optional and not found. Raises SetupError."""
        try:
            found = await self._client.get(_KINDS[kind], name, namespace=namespace)
        except NotFound:
            if optional:
                return None
            raise SetupError("CreateContainerConfigError", f'{kind.lower()} "{name}" not found; {_REMEDY}') from None
        if kind == "Secret":
            return {key: base64.b64decode(value) for key, value in mapping(found.get("data")).items()}
        texts = {key: str(value).encode() for key, value in mapping(found.get("data")).items()}
        return texts | {key: base64.b64decode(value) for key, value in mapping(found.get("binaryData")).items()}

    async def claimed_source(self, pod: Object, volume: Object) -> Object:
        """Returns the path and type of the volume bound to a claim of the pod, as in a hostPath. Raises SetupError."""
        namespace = str(metadata_of(pod).get("namespace"))
        if "ephemeral" in volume:
            name = f"{metadata_of(pod)['name']}-{volume['name']}"
        else:
            name = str(mapping(volume["persistentVolumeClaim"]).get("claimName"))
        try:
            claim = await self._client.get(_CLAIMS, name, namespace=namespace)
        except NotFound:
            raise SetupError(_FAILED, f'persistentvolumeclaim "{name}" not found; {_REMEDY}') from None
        if not is_bound(claim):
            raise SetupError(_FAILED, f'persistentvolumeclaim "{name}" is not bound to a volume')
        found = spec_of(await self._client.get(_VOLUMES, spec_of(claim)["volumeName"]))
        if source := mapping(found.get("hostPath")):
            return source
        if source := mapping(found.get("local")):
            return {"path": source["path"], "type": "Directory"}
        kind = volume_source(found)
        raise SetupError(
            _FAILED, f"volume {spec_of(claim)['volumeName']} ({kind}): only hostPath and local are mounted here"
        )

    async def token(self, pod: Object, audience: str, seconds: int) -> str:
        """Returns a token of the pod's service account, bound to the pod; cached until most of its life is over."""
        key, now = (uid_of(pod), audience, seconds), self._steady()
        known = self._tokens.get(key)
        if known is None or now >= known.fresh_until:
            answer = await self._request(pod, audience, seconds)
            expires, life = str(answer.get("expirationTimestamp") or ""), float(seconds)
            if expires:
                # The server may give less than requested; more may mean that the clock of this machine is behind.
                life = min(life, (moment(expires) - self._time.now()).total_seconds())
            fresh = min(_FRESH * life, _LONGEST_FRESH)
            known = self._tokens[key] = _Token(str(answer.get("token") or ""), now + fresh)
        return known.text

    def forget(self, pod_uid: str) -> None:
        """Forgets the tokens of a pod that is gone."""
        for key in [key for key in self._tokens if key[0] == pod_uid]:
            del self._tokens[key]

    async def _request(self, pod: Object, audience: str, seconds: int) -> Object:
        """Requests a token. Returns the status of the TokenRequest."""
        metadata = metadata_of(pod)
        account = str(spec_of(pod).get("serviceAccountName") or "default")
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": uid_of(pod)}
        body: Object = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": seconds,
                "boundObjectRef": bound,
                "audiences": [audience] if audience else [],
            },
        }
        answer = await self._client.create(
            _ACCOUNTS, body, namespace=str(metadata.get("namespace")), name=account, subresource="token"
        )
        return mapping(answer.get("status"))
