"""ClusterTrustBundle: certificates of authorities in PEM, of one signer or of none."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from dray.api import errors, names, pem
from dray.api.objects import Object
from dray.api.pem import Block
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.certificate_requests import signer_name
from dray.api.validation.fields import Errors

_LARGEST: Final = 1 << 20
_OMITTED: Final = "<value omitted>"
_PATH: Final = "spec.trustBundle"


def validate(bundle: Object, rules: Rules) -> Errors:
    yield from _names(bundle)
    yield from _anchors(bundle["spec"]["trustBundle"])


def validate_update(bundle: Object, old: Object, rules: Rules) -> Errors:
    """Validates an update. Unchanged certificates are not checked again: rules for them may have changed."""
    yield from _names(bundle)
    if bundle["spec"]["trustBundle"] != old["spec"]["trustBundle"]:
        yield from _anchors(bundle["spec"]["trustBundle"])
    yield from fields.immutable(bundle["spec"].get("signerName"), old["spec"].get("signerName"), "spec.signerName")


def _names(bundle: Object) -> Errors:
    signer, name = bundle["spec"].get("signerName") or "", bundle["metadata"].get("name") or ""
    if signer:
        yield from signer_name(signer, "spec.signerName")
    if name and (detail := bundle_name(name, signer)):
        yield errors.invalid("metadata.name", name, detail)


def bundle_name(name: str, signer: str) -> str:
    """Why a bundle of a signer, or of none, cannot be called so; empty if it can."""
    prefix = signer.replace("/", ":") + ":" if signer else ""
    if not signer and ":" in name:
        return 'ClusterTrustBundle without signer name must not have ":" in its name'
    if not name.startswith(prefix):
        return f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
    return "" if names.is_subdomain(name.removeprefix(prefix)) else names.SUBDOMAIN_DETAIL


def _anchors(text: str) -> Errors:
    if names.size(text) > _LARGEST:
        yield errors.too_long(_PATH, _LARGEST)
        return
    places: dict[bytes, list[int]] = defaultdict(list)
    bad = False
    for index, block in enumerate(pem.blocks(text)):
        places[block.content].append(index)
        if problem := _no_authority(block):
            bad = True
            yield errors.invalid(_PATH, _OMITTED, f"entry {index} {problem}")
    if bad:
        return
    if not places:
        yield errors.invalid(_PATH, _OMITTED, "at least one trust anchor must be provided")
    for indexes in places.values():
        if len(indexes) > 1:
            at = " ".join(map(str, indexes))
            yield errors.invalid(_PATH, _OMITTED, f"duplicate trust anchor (indices [{at}])")


def _no_authority(block: Block) -> str:
    """Why a block is not the certificate of an authority; empty if it is."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.has_headers:
        return "has PEM block headers"
    try:
        extensions = x509.load_der_x509_certificate(block.content).extensions
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        return "does not parse as X.509"
    return "" if is_authority else "does not have the CA bit set"
