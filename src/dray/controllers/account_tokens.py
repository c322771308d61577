"""The ServiceAccountToken controller: Secrets of type `kubernetes.io/service-account-token` hold a token.

Whoever wants a token that stays makes such a Secret, which names its service account in an annotation. The token is
asked for from the server and bound to the Secret, so that it ends with it. A Secret whose account is gone, or has been
made anew, is deleted, as Kubernetes does.
"""

from __future__ import annotations

import base64
from typing import Final

from dray.api import root_certificate
from dray.api.catalogue import built_in
from dray.api.objects import Key, Object, annotations_of, is_deleting, key_of, mapping, uid_of
from dray.client.cache import Change
from dray.client.errors import NotFound
from dray.controllers.environment import Environment, QueueController, named

SECRET_TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
# The longest time that the API knows: 136 years.
_SECONDS: Final = 2**32
_SECRETS: Final = built_in("v1", "Secret")
_ACCOUNTS: Final = built_in("v1", "ServiceAccount")
_CONFIG_MAPS: Final = built_in("v1", "ConfigMap")


class AccountTokens(QueueController[Key]):
    """Reconciles Secrets with service account tokens."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers("service account tokens", self.reconcile, called=named("Secret"))
        self._secrets = environment.informers.of(_SECRETS, fields=f"type={SECRET_TYPE}")
        self._accounts = environment.informers.of(_ACCOUNTS)
        self._secrets.add_handler(self._secret_changed)
        self._accounts.add_handler(self._account_changed)

    def _secret_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._workers.queue.add(change.key)

    def _account_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            return
        for secret in self._secrets.cache:
            key = key_of(secret)
            if key[0] == change.key[0] and annotations_of(secret).get(ACCOUNT_NAME) == change.key[1]:
                self._workers.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        secret = self._secrets.cache.get(name, namespace=namespace)
        if secret is None or is_deleting(secret):
            return
        account = await self._account(secret)
        if account is None:
            await self._client.delete_object(_SECRETS, secret, pinned=True)
            return
        data = mapping(secret.get("data"))
        wanted = {**data, **await self._certificate(), "namespace": _encoded(namespace)}
        if not data.get("token"):
            wanted["token"] = _encoded(await self._token(secret, account))
        annotations = {**annotations_of(secret), ACCOUNT_UID: uid_of(account)}
        if wanted != data or annotations != annotations_of(secret):
            metadata = {**secret["metadata"], "annotations": annotations}
            await self._client.update(_SECRETS, {**secret, "metadata": metadata, "data": wanted})

    async def _account(self, secret: Object) -> Object | None:
        """Reads the account from the server: a deletion must not be decided from a cache that lags behind."""
        annotations = annotations_of(secret)
        try:
            account = await self._client.get(_ACCOUNTS, str(annotations[ACCOUNT_NAME]), namespace=key_of(secret)[0])
        except NotFound:
            return None
        return account if annotations.get(ACCOUNT_UID) in (None, "", uid_of(account)) else None

    async def _certificate(self) -> dict[str, str]:
        place = {"namespace": root_certificate.NAMESPACE}
        try:
            published = await self._client.get(_CONFIG_MAPS, root_certificate.NAME, **place)
        except NotFound:
            return {}
        return {root_certificate.KEY: _encoded(str(mapping(published.get("data")).get(root_certificate.KEY) or ""))}

    async def _token(self, secret: Object, account: Object) -> str:
        namespace, name = key_of(secret)
        bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid_of(secret)}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _SECONDS, "boundObjectRef": bound},
        }
        answer = await self._client.create(
            _ACCOUNTS, body, namespace=namespace, name=key_of(account)[1], subresource="token"
        )
        return str(mapping(answer.get("status")).get("token") or "")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
