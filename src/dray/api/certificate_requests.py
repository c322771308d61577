"""CertificateSigningRequests: what is asked for, what became of it, and which requests a signer of nodes takes.

The request itself is PKCS#10 in PEM in base64. It is read here, once for everybody who asks: validation, the approver,
the signer. The library that reads it is loaded when there is one to read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dray.api import names
from dray.api.objects import is_true, spec_of, status_of, strings

if TYPE_CHECKING:
    from cryptography import x509

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"

NODE_PREFIX: Final = "system:node:"
NODE_GROUP: Final = "system:nodes"
_PEM_TYPE: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
_SIGNING: Final = "digital signature"
_ENCIPHERMENT: Final = "key encipherment"
CLIENT_AUTH: Final = "client auth"
SERVER_AUTH: Final = "server auth"


class RequestError(ValueError):
    """The request cannot be read, or its signer does not sign it; the text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed certificate request; `others` counts alternative names that are neither DNS names nor IP addresses."""

    common_name: str
    organizations: tuple[str, ...]
    hosts: tuple[str, ...]
    addresses: tuple[str, ...]
    others: int
    document: x509.CertificateSigningRequest

    @property
    def node(self) -> str:
        """The node name in a common name that starts with `system:node:`."""
        return self.common_name.removeprefix(NODE_PREFIX)

    @property
    def key_hash(self) -> str:
        """A hash that identifies the public key."""
        from cryptography.hazmat.primitives import serialization

        encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return hashlib.sha256(self.document.public_key().public_bytes(encoding, form)).hexdigest()


def is_approved(obj: Mapping[str, Any]) -> bool:
    return is_true(obj, APPROVED) and not is_true(obj, DENIED)


def is_open(obj: Mapping[str, Any]) -> bool:
    """Whether somebody has yet to decide about it."""
    return not (is_true(obj, APPROVED) or is_true(obj, DENIED))


def certificate_of(obj: Mapping[str, Any]) -> bytes:
    """Returns the issued certificate as PEM; "" if there is none."""
    return base64.b64decode(str(status_of(obj).get("certificate") or ""))


def read(obj: Mapping[str, Any]) -> Request:
    """Parses `spec.request`. Raises RequestError."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        pem = base64.b64decode(str(spec_of(obj).get("request") or ""), validate=True)
    except binascii.Error as error:
        raise RequestError(f"it is not base64: {error}") from None
    if not pem.lstrip().startswith(_PEM_TYPE):
        raise RequestError("PEM block type must be CERTIFICATE REQUEST")
    try:
        document = x509.load_pem_x509_csr(pem)
        valid = document.is_signature_valid
        return _described(document, valid)
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"it cannot be read: {error}") from error


def _described(document: x509.CertificateSigningRequest, valid: bool) -> Request:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    if not valid:
        raise RequestError("its signature is not that of its key")
    try:
        names = document.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    common = [str(attribute.value) for attribute in document.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = [
        str(attribute.value) for attribute in document.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    ]
    hosts = tuple(names.get_values_for_type(x509.DNSName))
    addresses = tuple(str(address) for address in names.get_values_for_type(x509.IPAddress))
    others = len(list(names)) - len(hosts) - len(addresses)
    # Of several names it would be open which one counts.
    return Request(common[0] if len(common) == 1 else "", tuple(organizations), hosts, addresses, others, document)


def check(obj: Mapping[str, Any], request: Request) -> None:
    """Raises RequestError unless the signer that the request names may sign it, as far as that signer is known."""
    signer, usages = spec_of(obj).get("signerName"), set(strings(spec_of(obj).get("usages")))
    if signer == CLIENT:
        _check_client(request, usages)
    elif signer == KUBELET_CLIENT:
        _check_node(request, usages, CLIENT_AUTH)
        if request.hosts or request.addresses or request.others:
            raise RequestError("subjectAltNames are not allowed")
    elif signer == KUBELET_SERVING:
        _check_node(request, usages, SERVER_AUTH)
        if not request.hosts and not request.addresses:
            raise RequestError("DNS or IP subjectAltName is required")
        if request.others:
            raise RequestError("subjectAltNames other than DNS and IP are not allowed")


def _check_client(request: Request, usages: set[str]) -> None:
    if strange := usages - {_SIGNING, _ENCIPHERMENT, CLIENT_AUTH}:
        raise RequestError(f"invalid usage for client certificate: {min(strange)}")
    if CLIENT_AUTH not in usages:
        raise RequestError(f"missing required usage for client certificate: {CLIENT_AUTH}")
    if not request.common_name:
        raise RequestError("exactly one common name is required")
    if not request.common_name.isprintable():
        raise RequestError("the common name has characters that cannot be printed")
    if NODE_GROUP in request.organizations:
        raise RequestError(f"certificates of the group {NODE_GROUP} are signed by {KUBELET_CLIENT} only")


def _check_node(request: Request, usages: set[str], purpose: str) -> None:
    if request.organizations != (NODE_GROUP,):
        raise RequestError(f"subject organization is not {NODE_GROUP}")
    if not request.common_name.startswith(NODE_PREFIX) or request.common_name == NODE_PREFIX:
        raise RequestError(f"subject common name does not begin with {NODE_PREFIX}")
    if not names.is_subdomain(request.node):
        raise RequestError(f"node name {request.node!r} must be {names.SUBDOMAIN_DETAIL}")
    for host in request.hosts:
        if not names.is_subdomain(host.lower()):
            raise RequestError(
                f"DNS subjectAltName {host!r} must be {names.SUBDOMAIN_DETAIL}; wildcards are not signed"
            )
    if usages - {_ENCIPHERMENT} != {_SIGNING, purpose}:
        raise RequestError(f"usages must be {_SIGNING} and {purpose}, with or without {_ENCIPHERMENT}")
