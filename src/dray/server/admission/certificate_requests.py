"""Admission of certificate requests: the requesting user, rights to approve, sign and attest, forbidden groups."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dray.api import certificate_requests, errors
from dray.api.catalogue import CERTIFICATES_GROUP
from dray.api.certificate_requests import RequestError
from dray.api.objects import is_true, status_of
from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.authorization import MASTERS, Access

_CLOCKS_DIFFER: Final = timedelta(minutes=5)


def identify(attributes: Attributes) -> None:
    """Sets the requesting user in the spec, whatever the client wrote."""
    spec, user = attributes.obj["spec"], attributes.user
    who = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    extra = {key: list(values) for key, values in user.extra.items()}
    for member in (*who, "extra"):
        spec.pop(member, None)
    spec.update({member: value for member, value in (*who.items(), ("extra", extra)) if value})


def refuse_masters(attributes: Attributes) -> None:
    """Refuses certificates for the group system:masters, because they could not be revoked."""
    if attributes.obj["spec"].get("signerName") != certificate_requests.CLIENT:
        return
    try:
        request = certificate_requests.read(attributes.obj)
    except RequestError as error:
        raise attributes.forbid(f"the request cannot be read: {error}") from error
    if MASTERS in request.organizations:
        raise attributes.forbid(f"use of {certificate_requests.CLIENT} signer with {MASTERS} group is not allowed")


def authorize(attributes: Attributes) -> None:
    if attributes.subresource == "approval":
        _require(attributes, "approve")
    elif attributes.subresource == "status" and status_of(attributes.obj) != status_of(attributes.old or {}):
        _require(attributes, "sign")


def attest(attributes: Attributes) -> None:
    """Refuses a trust bundle unless the user may attest for its signer."""
    signer = attributes.obj["spec"].get("signerName")
    unchanged = attributes.old is not None and attributes.old["spec"] == attributes.obj["spec"]
    if signer and not unchanged and not _may(attributes, "attest"):
        raise attributes.forbid(f'user not permitted to attest for signerName "{signer}"')


def sign_for_pod(attributes: Attributes) -> None:
    """Checks the status of a PodCertificateRequest: its certificate begins about now, and the user may sign."""
    obj, signer = attributes.obj, str(attributes.obj["spec"].get("signerName"))
    if attributes.subresource != "status" or status_of(obj) == status_of(attributes.old or {}):
        return
    problems = []
    start = datetime.fromisoformat(status_of(obj)["notBefore"]) if is_true(obj, "Issued") else None
    if start is not None and not abs(start - attributes.context.clock()) < _CLOCKS_DIFFER:
        detail = "must be set to within 5 minutes of kube-apiserver's current time"
        problems.append(errors.invalid("status.notBefore", status_of(obj)["notBefore"], detail))
    elif not _may(attributes, "sign"):
        detail = f'User "{attributes.user.name}" is not permitted to "sign" for signer "{signer}"'
        problems.append(errors.forbidden("spec.signerName", detail))
    if problems:
        raise status.invalid(attributes.resource.kind, CERTIFICATES_GROUP, attributes.name, problems)


def _require(attributes: Attributes, verb: str) -> None:
    if not _may(attributes, verb):
        signer = str(attributes.obj["spec"].get("signerName") or "")
        raise attributes.forbid(f'user not permitted to {verb} requests with signerName "{signer}"')


def _may(attributes: Attributes, verb: str) -> bool:
    """Returns True if the user may use the verb for the signer, by name or for all signers of its domain."""
    signer = str(attributes.obj["spec"].get("signerName") or "")
    authorizer = attributes.context.authorizer
    return any(
        authorizer.authorize(attributes.user, Access(verb, CERTIFICATES_GROUP, "signers", name=name)).allowed
        for name in (signer, f"{signer.partition('/')[0]}/*")
    )
