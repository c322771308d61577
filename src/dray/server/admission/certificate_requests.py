"""Admission of CertificateSigningRequests: who asks, who may approve, who may sign, and whom nobody may ask for."""

from __future__ import annotations

from dray.api import certificate_requests
from dray.api.catalogue import CERTIFICATES_GROUP
from dray.api.certificate_requests import RequestError
from dray.api.objects import status_of
from dray.server.admission.attributes import Attributes
from dray.server.authorization import MASTERS, Access


def identify(attributes: Attributes) -> None:
    """Whatever the client wrote, the request is from the user who made it."""
    spec, user = attributes.obj["spec"], attributes.user
    who = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    extra = {key: list(values) for key, values in user.extra.items()}
    for member in (*who, "extra"):
        spec.pop(member, None)
    spec.update({member: value for member, value in (*who.items(), ("extra", extra)) if value})


def refuse_masters(attributes: Attributes) -> None:
    """A certificate of the administrators' group could not be taken back, by nobody."""
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


def _require(attributes: Attributes, verb: str) -> None:
    """For the signer by its name, or for all signers of its domain."""
    signer = str(attributes.obj["spec"].get("signerName") or "")
    authorizer = attributes.context.authorizer
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        if authorizer.authorize(attributes.user, Access(verb, CERTIFICATES_GROUP, "signers", name=name)).allowed:
            return
    raise attributes.forbid(f'user not permitted to {verb} requests with signerName "{signer}"')
