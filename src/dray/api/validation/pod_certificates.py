"""PodCertificateRequest: the certificate that a node wants for a pod, and how it was answered."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from dray.api import errors, names, pem
from dray.api.objects import Object, is_true
from dray.api.rules import Rules
from dray.api.validation import fields, metadata
from dray.api.validation.certificate_requests import signer_name
from dray.api.validation.fields import Errors

if TYPE_CHECKING:
    from cryptography import x509

_LONGEST_UID: Final = 128
_LEAST_SECONDS: Final = 3600
_MOST_SECONDS: Final = 91 * 24 * 3600
_MOST_SECONDS_OF_KUBERNETES: Final = 24 * 3600
_LARGEST_REQUEST: Final = 10 * 1024
_LARGEST_CHAIN: Final = 100 * 1024
_RSA_BITS: Final = (3072, 4096)
_CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")
_OUTCOMES: Final = ["Denied", "Failed", "Issued"]
_REQUEST: Final = "spec.stubPKCS10Request"
_CHAIN: Final = "status.certificateChain"
_OMITTED: Final = "<value omitted>"
_REFRESH_MARGIN: Final = timedelta(minutes=10)
_SHORTEST: Final = timedelta(hours=1)


def validate(request: Object, rules: Rules) -> Errors:
    spec = request["spec"]
    yield from signer_name(spec["signerName"], "spec.signerName")
    annotations = spec.get("unverifiedUserAnnotations") or {}
    yield from metadata.annotations(annotations, "spec.unverifiedUserAnnotations")
    for member, is_name, detail in (
        ("podName", names.is_subdomain, names.SUBDOMAIN_DETAIL),
        ("serviceAccountName", names.is_subdomain, names.SUBDOMAIN_DETAIL),
        ("nodeName", names.is_subdomain, names.SUBDOMAIN_DETAIL),
    ):
        if not is_name(spec[member]):
            yield errors.invalid(f"spec.{member}", spec[member], detail)
        uid = member.removesuffix("Name") + "UID"
        if not spec[uid]:
            yield errors.invalid(f"spec.{uid}", "", "must not be empty")
        elif names.size(spec[uid]) > _LONGEST_UID:
            yield errors.too_long(f"spec.{uid}", _LONGEST_UID)
    yield from _seconds(spec.get("maxExpirationSeconds"), spec["signerName"])
    yield from _key(spec.get("stubPKCS10Request") or "")


def _seconds(seconds: int | None, signer: str) -> Errors:
    path = "spec.maxExpirationSeconds"
    if seconds is None:
        yield errors.required(path, "must be set")
        return
    most = most_seconds(signer)
    if not _LEAST_SECONDS <= seconds <= most:
        yield errors.invalid(path, seconds, f"must be in the range [{_LEAST_SECONDS}, {most}]")


def most_seconds(signer: str) -> int:
    """Returns the longest lifetime of the signer's certificates, in seconds."""
    domain = signer.partition("/")[0]
    official = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return _MOST_SECONDS_OF_KUBERNETES if official else _MOST_SECONDS


def _key(encoded: str) -> Errors:
    if not encoded:
        yield errors.required(_REQUEST)
        return
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        content = b""
    if len(content) > _LARGEST_REQUEST:
        yield errors.too_long(_REQUEST, _LARGEST_REQUEST)
        return
    found = _read_request(content)
    if found is None:
        yield errors.invalid(_REQUEST, _OMITTED, "must be a valid PKCS#10 CSR")
    elif problem := _unfit(found.public_key()):
        yield errors.invalid(_REQUEST, *problem)
    elif not found.is_signature_valid:
        yield errors.invalid(_REQUEST, _OMITTED, "invalid signature")


def _read_request(content: bytes) -> x509.CertificateSigningRequest | None:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        found = x509.load_der_x509_csr(content)
        found.public_key()
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None
    return found


def _unfit(key: Any) -> tuple[str, str] | None:
    """Why certificates are not made for such a key: what of it, and what instead."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ed25519.Ed25519PublicKey):
        return None
    if isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name in _CURVES:
            return None
        return f"curve {key.curve.name}", "elliptic public keys must use curve P256, P384, or P521"
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size in _RSA_BITS:
            return None
        return f"{key.key_size}-bit modulus", "RSA keys must have modulus size 3072 or 4096"
    return _OMITTED, "unknown public key type; supported types are Ed25519, ECDSA, and RSA"


def validate_update(request: Object, old: Object, rules: Rules) -> Errors:
    yield from fields.immutable(request["spec"], old["spec"], "spec")


def validate_status(request: Object, old: Object, rules: Rules) -> Errors:
    problems = list(_conditions(request["status"].get("conditions") or []))
    yield from problems
    if problems:
        return
    status, before = request["status"], old["status"]
    if any(is_true(old, outcome) for outcome in _OUTCOMES):
        if status != before:
            detail = "immutable after PodCertificateRequest is issued, denied, or failed"
            yield errors.invalid("status", _OMITTED, detail)
    elif is_true(request, "Denied") or is_true(request, "Failed"):
        if status.keys() - {"conditions"}:
            detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            yield errors.invalid("status", _OMITTED, detail)
    elif is_true(request, "Issued"):
        yield from _issued(request)
    elif status != before:
        detail = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        yield errors.invalid("status", _OMITTED, detail)


def _conditions(conditions: list[Object]) -> Errors:
    path = "status.conditions"
    for index, condition in enumerate(conditions):
        if condition["type"] not in _OUTCOMES:
            yield errors.not_supported(f"{path}[{index}].type", condition["type"], _OUTCOMES)
            continue
        if index:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            yield errors.invalid(f"{path}[{index}].type", condition["type"], detail)
        if condition["status"] != "True":
            yield errors.not_supported(f"{path}[{index}].status", condition["status"], ["True"])
    yield from fields.conditions(conditions, path)


def _issued(request: Object) -> Errors:
    chain = request["status"].get("certificateChain") or ""
    if names.size(chain) > _LARGEST_CHAIN:
        yield errors.too_long(_CHAIN, _LARGEST_CHAIN)
        return
    certificates: list[x509.Certificate] = []
    for block in pem.blocks(chain):
        if block.type != "CERTIFICATE":
            detail = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
            yield errors.invalid(_CHAIN, chain, detail)
            return
        found = _read_certificate(block.content)
        if found is None:
            which = "intermediate" if certificates else "leaf"
            yield errors.invalid(_CHAIN, chain, f"{which} certificate does not parse as valid X.509")
            return
        certificates.append(found)
    if not certificates:
        yield errors.invalid(_CHAIN, chain, "issued certificate chain must contain at least one certificate")
        return
    yield from _leaf(request, certificates[0], chain)


def _read_certificate(content: bytes) -> x509.Certificate | None:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        found = x509.load_der_x509_certificate(content)
        found.public_key()
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None
    return found


def _leaf(request: Object, leaf: x509.Certificate, chain: str) -> Errors:
    wanted = _read_request(base64.b64decode(request["spec"].get("stubPKCS10Request") or ""))
    if wanted is None or wanted.public_key() != leaf.public_key():
        yield errors.invalid(_CHAIN, chain, "leaf certificate was not issued to the requested public key")
        return
    missing = [member for member in ("notBefore", "notAfter", "beginRefreshAt") if not request["status"].get(member)]
    for member in missing:
        yield errors.required(f"status.{member}", "must be present and consistent with the issued certificate")
    if not missing:
        yield from _times(request, leaf)


def _times(request: Object, leaf: x509.Certificate) -> Errors:
    status = request["status"]
    start, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    for member, name, moment in (("notBefore", "NotBefore", start), ("notAfter", "NotAfter", end)):
        if datetime.fromisoformat(status[member]) != moment:
            detail = f"must be set to the {name} time encoded in the leaf certificate"
            yield errors.invalid(f"status.{member}", status[member], detail)
            return
    most = request["spec"]["maxExpirationSeconds"]
    if end - start < _SHORTEST:
        yield errors.invalid(_CHAIN, _OMITTED, "leaf certificate lifetime must be >= 1 hour")
    elif (end - start).total_seconds() > most:
        detail = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})"
        yield errors.invalid(_CHAIN, _OMITTED, detail)
    else:
        yield from _refresh(status["beginRefreshAt"], start, end)


def _refresh(given: str, start: datetime, end: datetime) -> Errors:
    path, moment = "status.beginRefreshAt", datetime.fromisoformat(given)
    if moment < start + _REFRESH_MARGIN:
        yield errors.invalid(path, given, "must be at least 10 minutes after status.notBefore")
    elif moment > end - _REFRESH_MARGIN:
        yield errors.invalid(path, given, "must be at least 10 minutes before status.notAfter")
