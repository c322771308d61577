"""Legacy tokens: those that a kube-controller-manager signs for Secrets of type `kubernetes.io/service-account-token`.

They have no end of their own. Each holds for as long as its Secret holds it and its service account is the one it was
made for. dray itself makes none: its tokens are bound to the Secret.
"""

from __future__ import annotations

import base64
import hmac

import msgspec

from dray.api.objects import mapping
from dray.server.authorization import AUTHENTICATED, User
from dray.server.security import users
from dray.server.security.jwt import TokenError
from dray.server.security.objects import Objects

ISSUER = "kubernetes/serviceaccount"
_NAMES = {
    "namespace": "kubernetes.io/serviceaccount/namespace",
    "secret": "kubernetes.io/serviceaccount/secret.name",
    "account": "kubernetes.io/serviceaccount/service-account.name",
    "uid": "kubernetes.io/serviceaccount/service-account.uid",
}


class LegacyClaims(msgspec.Struct, frozen=True, rename=_NAMES):
    iss: str
    sub: str
    namespace: str
    secret: str
    account: str
    uid: str

    def check_subject(self) -> None:
        if self.sub != users.service_account_name(self.namespace, self.account):
            raise TokenError("the subject is not the service account")

    def holder(self, token: str, objects: Objects) -> User:
        """Returns the user of the token; raises TokenError unless its Secret and account exist and still match."""
        secret = objects.get("", "secrets", self.namespace, self.secret)
        held = mapping(mapping(secret).get("data")).get("token") if secret is not None else None
        if not isinstance(held, str) or not hmac.compare_digest(held, base64.b64encode(token.encode()).decode()):
            raise TokenError("the secret of the token is gone or holds another")
        account = objects.get("", "serviceaccounts", self.namespace, self.account)
        if account is None or account["metadata"].get("uid") != self.uid:
            raise TokenError("what the token is bound to is gone (serviceaccounts)")
        if any(obj["metadata"].get("deletionTimestamp") for obj in (secret, account) if obj is not None):
            raise TokenError("what the token is bound to is being deleted")
        return User(self.sub, (*users.service_account_groups(self.namespace), AUTHENTICATED), self.uid)
