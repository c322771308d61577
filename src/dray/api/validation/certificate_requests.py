"""CertificateSigningRequest: a request that does not change, conditions that are added and stay, one certificate."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Final

from dray.api import certificate_requests, errors, names
from dray.api.certificate_requests import APPROVED, DENIED, FAILED, RequestError
from dray.api.objects import Object
from dray.api.repeats import repeats
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

LEAST_SECONDS: Final = 600
LONGEST_SIGNER: Final = 571
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_USAGES: Final = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
]
_LASTING: Final = (APPROVED, DENIED, FAILED)


def validate(obj: Object, rules: Rules) -> Errors:
    spec = obj["spec"]
    try:
        certificate_requests.read(obj)
    except RequestError as error:
        yield errors.invalid("spec.request", spec.get("request"), str(error))
    usages = spec.get("usages") or []
    if not usages:
        yield errors.required("spec.usages")
    for index, (usage, is_repeated) in enumerate(zip(usages, repeats(usages), strict=True)):
        if usage not in _USAGES:
            yield errors.not_supported(f"spec.usages[{index}]", usage, _USAGES)
        if is_repeated:
            yield errors.duplicate(f"spec.usages[{index}]", usage)
    signer = spec.get("signerName") or ""
    if signer == _LEGACY:
        yield errors.invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")
    else:
        yield from signer_name(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < LEAST_SECONDS:
        yield errors.invalid(
            "spec.expirationSeconds", seconds, f"may not specify a duration less than {LEAST_SECONDS} seconds"
        )


def signer_name(name: str, path: str) -> Errors:
    """A domain that its owner has, a slash, and dotted words."""
    if not name:
        yield errors.required(path)
        return
    domain, slash, rest = name.partition("/")
    if not slash or not rest or "/" in rest:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield errors.invalid(path, name, detail)
        return
    if not names.is_subdomain(domain) or "." not in domain:
        yield errors.invalid(path, name, f"{domain!r} must be a domain with at least two parts")
    if not names.is_subdomain(rest):
        yield errors.invalid(path, name, f"{rest!r}: {names.SUBDOMAIN_DETAIL}")
    if names.size(name) > LONGEST_SIGNER:
        yield errors.too_long(path, LONGEST_SIGNER)


def validate_update(obj: Object, old: Object, rules: Rules) -> Errors:
    """Spec and status stay as they are, whatever is sent."""
    return iter(())


def validate_status(obj: Object, old: Object, rules: Rules) -> Errors:
    yield from _conditions(obj, old)
    yield from _added(obj, old, (APPROVED, DENIED))
    yield from _certificate(obj, old)


def validate_approval(obj: Object, old: Object, rules: Rules) -> Errors:
    yield from _conditions(obj, old)


def _conditions(obj: Object, old: Object) -> Errors:
    conditions, path = obj["status"].get("conditions") or [], "status.conditions"
    yield from fields.limited(conditions, len(conditions), path, _condition, key=fields.by("type"))
    types = [condition.get("type") for condition in conditions]
    for lasting in _LASTING:
        if lasting in _types(old) and lasting not in types:
            yield errors.forbidden(path, f'updates may not remove a condition of type "{lasting}"')
    if APPROVED in types and DENIED in types:
        yield errors.invalid(path, DENIED, "Approved and Denied conditions are mutually exclusive")


def _condition(condition: Object, path: str) -> Errors:
    if not condition.get("type"):
        yield errors.required(f"{path}.type")
    status = condition.get("status")
    choices = ["True"] if condition.get("type") in _LASTING else ["True", "False", "Unknown"]
    yield from fields.enum(status, choices, f"{path}.status", required=True)


def _added(obj: Object, old: Object, types: Iterable[str]) -> Errors:
    for type_ in types:
        if type_ in _types(obj) and type_ not in _types(old):
            yield errors.forbidden("status.conditions", f'updates may not add a condition of type "{type_}"')


def _types(obj: Object) -> list[str]:
    return [condition.get("type", "") for condition in obj["status"].get("conditions") or []]


def _certificate(obj: Object, old: Object) -> Errors:
    path, given, before = "status.certificate", obj["status"].get("certificate"), old["status"].get("certificate")
    if given == before:
        return
    if before:
        yield errors.forbidden(path, "updates may not modify existing certificate content")
        return
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(base64.b64decode(given or ""))
    except ValueError as error:
        yield errors.invalid(path, "<certificate data>", f"must contain one or more PEM blocks: {error}")
