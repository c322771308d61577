"""TokenRequest and TokenReview: issuing a service account's token, and saying whose a token is.

`request_token` answers `POST …/serviceaccounts/<name>/token`. The object a token is bound to is looked up, so that a
token never outlives it, and a token for a pod carries the node the pod runs on. Only pods that run as the service
account can be bound to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from dray.api import errors
from dray.api.errors import FieldError
from dray.api.objects import Object
from dray.server import status
from dray.server.authorization import User
from dray.server.security import users
from dray.server.security.authentication import TokenAuthenticator
from dray.server.security.jwt import TokenError
from dray.server.security.objects import Objects
from dray.server.security.service_account_tokens import Bindings, Reference, TokenIssuer

GROUP = "authentication.k8s.io"
API_VERSION = f"{GROUP}/v1"
DEFAULT_SECONDS = 3600
LEAST_SECONDS = 600
MOST_SECONDS = 365 * 24 * 3600
_LONGEST = 2**32


_BOUND_KINDS = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def request_token(issuer: TokenIssuer, objects: Objects, account: Mapping[str, Any], request: Object) -> Object:
    """Returns the TokenRequest with its status; `account` is the ServiceAccount, `request` the decoded body."""
    spec = request.get("spec") or {}
    metadata = account["metadata"]
    found = _validate(spec)
    if found:
        raise status.invalid("TokenRequest", GROUP, metadata["name"], found)
    bindings = _bind(objects, metadata, spec.get("boundObjectRef"))
    # A user that can read the Secret has its token anyway, as long as the Secret exists.
    most = _LONGEST if bindings.secret is not None else MOST_SECONDS
    seconds = min(spec.get("expirationSeconds") or DEFAULT_SECONDS, most)
    audiences = spec.get("audiences") or [issuer.issuer]
    token, expires = issuer.issue(bindings, audiences, seconds=seconds)
    return {
        "kind": "TokenRequest",
        "apiVersion": API_VERSION,
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": _timestamp(expires)},
    }


def _validate(spec: Object) -> list[FieldError]:
    seconds = spec.get("expirationSeconds")
    field = "spec.expirationSeconds"
    if seconds is not None and seconds < LEAST_SECONDS:
        return [errors.invalid(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds is not None and seconds > _LONGEST:
        return [errors.invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _bind(objects: Objects, account: Mapping[str, Any], reference: Object | None) -> Bindings:
    namespace, name = account["namespace"], account["name"]
    holder = Reference(name, account["uid"])
    if not reference:
        return Bindings(namespace, holder)
    kind = str(reference.get("kind"))
    resource = _BOUND_KINDS.get(kind)
    if resource is None or reference.get("apiVersion") != "v1":
        raise status.bad_request(f'cannot bind token for serviceaccount "{name}" to type {kind}')
    bound_name = str(reference.get("name") or "")
    bound = objects.get("", resource, "" if kind == "Node" else namespace, bound_name)
    if bound is None:
        raise status.not_found("", resource, bound_name)
    uid = bound["metadata"]["uid"]
    if reference.get("uid") not in (None, "", uid):
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise status.conflict("", resource, bound_name, why)
    to = Reference(bound_name, uid)
    if kind == "Pod":
        return _bind_to_pod(objects, namespace, holder, to, bound)
    if kind == "Secret":
        return Bindings(namespace, holder, secret=to)
    return Bindings(namespace, holder, node=to)


def _bind_to_pod(
    objects: Objects, namespace: str, holder: Reference, to: Reference, pod: Mapping[str, Any]
) -> Bindings:
    spec = pod["spec"]
    if (spec.get("serviceAccountName") or "default") != holder.name:
        why = f'cannot bind token for serviceaccount "{holder.name}" to pod running with different serviceaccount name.'
        raise status.bad_request(why)
    node = objects.get("", "nodes", "", spec["nodeName"]) if spec.get("nodeName") else None
    on = Reference(spec["nodeName"], node["metadata"]["uid"]) if node is not None else None
    return Bindings(namespace, holder, pod=to, node=on)


def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def review_token(authenticator: TokenAuthenticator, review: Object, default_audience: str) -> Object:
    """Returns the TokenReview with its status, without the token."""
    spec = review.get("spec") or {}
    audiences = spec.get("audiences") or []
    return {
        "kind": "TokenReview",
        "apiVersion": API_VERSION,
        "metadata": {"creationTimestamp": None},
        "spec": {"audiences": audiences} if audiences else {},
        "status": _review(authenticator, str(spec.get("token") or ""), audiences, default_audience),
    }


def _review(authenticator: TokenAuthenticator, token: str, audiences: Iterable[str], default: str) -> Object:
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    try:
        user, common = authenticator.authenticate(token, tuple(audiences) or (default,))
    except TokenError as error:
        return {"user": {}, "error": str(error)}
    return {"authenticated": True, "user": users.user_info(user), "audiences": list(common)}


def review_self(user: User) -> Object:
    """Returns the SelfSubjectReview for `kubectl auth whoami`."""
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": API_VERSION,
        "metadata": {"creationTimestamp": None},
        "status": {"userInfo": users.user_info(user)},
    }
