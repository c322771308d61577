"""Tokens of service accounts: signed by the server, bound to an object, checked against what exists.

A token names its service account by uid and, where it is bound, a pod, a secret or a node by uid; it ends with any of
them. A token bound to a pod also says which node the pod runs on, and its holder is a user "associated" with that
node. `Objects` is how the issuer looks at the world; it answers from memory. Those of a kube-controller-manager beside
dray, with the same key, are `legacy_tokens`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import uuid4

import msgspec

from dray.server.authorization import AUTHENTICATED, User
from dray.server.security import jwt, legacy_tokens, users
from dray.server.security.authority import Clock, load_key, utc_now
from dray.server.security.certificates import Key, new_key
from dray.server.security.jwt import TokenError
from dray.server.security.legacy_tokens import LegacyClaims
from dray.server.security.objects import Objects
from dray.server.security.private_files import private_directory

ISSUER = "https://kubernetes.default.svc.cluster.local"
_REMEMBERED = 1024


class Reference(msgspec.Struct, frozen=True):
    name: str
    uid: str


class Bindings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `kubernetes.io` claim of a token."""

    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class Claims(msgspec.Struct, frozen=True, rename={"bindings": "kubernetes.io"}):
    iss: str
    sub: str
    aud: tuple[str, ...]
    exp: int
    iat: int
    nbf: int
    jti: str
    bindings: Bindings


class _Issued(msgspec.Struct, frozen=True):
    iss: str


class TokenIssuer:
    def __init__(
        self,
        objects: Objects,
        *,
        key: Key | None = None,
        issuer: str = ISSUER,
        clock: Clock = utc_now,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._objects = objects
        self._key = key or new_key()
        self._keys = {jwt.key_id(self._key.public_key()): self._key.public_key()}
        self._clock = clock
        self._new_id = new_id
        self.issuer = issuer
        # Verifying a signature costs more than a whole request, so verified tokens are cached by digest.
        self._verified: dict[bytes, Claims | LegacyClaims] = {}

    @classmethod
    def open(cls, directory: Path, objects: Objects, *, clock: Clock = utc_now) -> TokenIssuer:
        """Opens the signing key in a directory; makes one if there is none."""
        with private_directory(directory):
            key = load_key(directory / "service-account.key")
        return cls(objects, key=key, clock=clock)

    def issue(self, bindings: Bindings, audiences: Iterable[str] = (), *, seconds: int = 3600) -> tuple[str, int]:
        """Returns a new token, and the second since 1970 at which it expires."""
        now = int(self._clock().timestamp())
        claims = Claims(
            iss=self.issuer,
            sub=users.service_account_name(bindings.namespace, bindings.serviceaccount.name),
            aud=tuple(audiences) or (self.issuer,),
            exp=now + seconds,
            iat=now,
            nbf=now,
            jti=self._new_id(),
            bindings=bindings,
        )
        return jwt.sign(msgspec.to_builtins(claims), self._key), claims.exp

    def authenticate(self, token: str, audiences: Iterable[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Returns the user of a token, and the audiences that match; raises TokenError."""
        claims = self._read(token)
        meant_for = (self.issuer,) if isinstance(claims, LegacyClaims) else claims.aud
        common = tuple(audience for audience in tuple(audiences) or (self.issuer,) if audience in meant_for)
        if not common:
            raise TokenError("the token is meant for another audience")
        if isinstance(claims, LegacyClaims):
            return claims.holder(token, self._objects), common
        if not claims.nbf <= self._clock().timestamp() < claims.exp:
            raise TokenError("the token has expired or is not valid yet")
        self._check_bindings(claims.bindings)
        return _user(claims), common

    def _read(self, token: str) -> Claims | LegacyClaims:
        if len(token) > jwt.MAX_LENGTH:
            raise TokenError("the token is too long")
        digest = hashlib.sha256(token.encode()).digest()
        known = self._verified.get(digest)
        if known is not None:
            return known
        try:
            claims = self._decode(jwt.verify(token, self._keys))
        except msgspec.DecodeError as error:
            raise TokenError("the claims are not those of a service account token") from error
        while len(self._verified) >= _REMEMBERED:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = claims
        return claims

    def _decode(self, encoded: bytes) -> Claims | LegacyClaims:
        issuer = msgspec.json.decode(encoded, type=_Issued).iss
        if issuer == legacy_tokens.ISSUER:
            legacy = msgspec.json.decode(encoded, type=LegacyClaims)
            legacy.check_subject()
            return legacy
        if issuer != self.issuer:
            raise TokenError("the token has another issuer")
        claims = msgspec.json.decode(encoded, type=Claims)
        if claims.sub != users.service_account_name(claims.bindings.namespace, claims.bindings.serviceaccount.name):
            raise TokenError("the subject is not the service account")
        return claims

    def _check_bindings(self, bindings: Bindings) -> None:
        namespace = bindings.namespace
        self._check("serviceaccounts", namespace, bindings.serviceaccount)
        for resource, reference in (("pods", bindings.pod), ("secrets", bindings.secret)):
            if reference is not None:
                self._check(resource, namespace, reference)
        # Beside a pod the node is only information: the pod ends with its node.
        if bindings.node is not None and bindings.pod is None:
            self._check("nodes", "", bindings.node)

    def _check(self, resource: str, namespace: str, reference: Reference) -> None:
        found = self._objects.get("", resource, namespace, reference.name)
        if found is None or found["metadata"].get("uid") != reference.uid:
            raise TokenError(f"what the token is bound to is gone ({resource})")


def _user(claims: Claims) -> User:
    bindings = claims.bindings
    extra = {users.CREDENTIAL_ID: (f"JTI={claims.jti}",)}
    if bindings.pod is not None:
        extra |= {users.POD_NAME: (bindings.pod.name,), users.POD_UID: (bindings.pod.uid,)}
    if bindings.node is not None:
        extra |= {users.NODE_NAME: (bindings.node.name,), users.NODE_UID: (bindings.node.uid,)}
    groups = (*users.service_account_groups(bindings.namespace), AUTHENTICATED)
    return User(claims.sub, groups, bindings.serviceaccount.uid, extra)
