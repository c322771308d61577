"""Projected volumes: what each source must say, and paths that do not collide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.api import errors, names
from dray.api.objects import Object, mapping, mappings
from dray.api.validation import metadata, paths
from dray.api.validation.certificate_requests import signer_name
from dray.api.validation.fields import Errors
from dray.api.validation.pod_certificates import most_seconds
from dray.api.validation.trust_bundles import bundle_name

_SOURCES: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_KEY_TYPES: Final = ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"]
_PATHS: Final = ("credentialBundlePath", "keyPath", "certificateChainPath")
_LEAST_TOKEN_SECONDS, _MOST_TOKEN_SECONDS = 600, 1 << 32
_LEAST_CERTIFICATE_SECONDS: Final = 3600
_MOST_MODE: Final = 0o777


def validate(projected: Object, path: str) -> Errors:
    yield from mode(projected.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for index, source in enumerate(mappings(projected.get("sources"))):
        at = f"{path}.sources[{index}]"
        given = [member for member in _SOURCES if source.get(member) is not None]
        for member in given:
            yield from _CHECKS[member](source[member], f"{at}.{member}")
            for item in _paths(member, source[member]):
                if item in taken:
                    yield errors.invalid(path, item, "conflicting duplicate paths")
                taken.add(item)
        if len(given) > 1:
            yield errors.forbidden(at, "may not specify more than 1 volume type per source")


def _paths(member: str, source: Object) -> Iterator[str]:
    found = [item.get("path") for item in mappings(source.get("items"))]
    if member == "clusterTrustBundle":
        found.append(source.get("path"))
    found += [source.get(name) for name in _PATHS]
    return (str(item) for item in found if item)


def mode(value: int | None, path: str) -> Errors:
    if value is not None and not 0 <= value <= _MOST_MODE:
        yield errors.invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")


def items(given: list[Object], path: str) -> Errors:
    """The keys of a ConfigMap or Secret that become files."""
    for index, item in enumerate(given):
        at = f"{path}[{index}]"
        for member in ("key", "path"):
            if not item.get(member):
                yield errors.required(f"{at}.{member}")
        yield from paths.non_reserved(str(item.get("path") or ""), f"{at}.path")
        yield from mode(item.get("mode"), f"{at}.mode")


def _named(source: Object, path: str) -> Errors:
    if not source.get("name"):
        yield errors.required(f"{path}.name")
    yield from items(mappings(source.get("items")), f"{path}.items")


def downward(source: Object, path: str) -> Errors:
    """The fields of a pod that become files; Kubernetes reports their problems without their number."""
    for item in mappings(source.get("items")):
        if not item.get("path"):
            yield errors.required(f"{path}.path")
        yield from paths.non_reserved(str(item.get("path") or ""), f"{path}.path")
        if item.get("fieldRef") is not None and item.get("resourceFieldRef") is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield errors.invalid(path, "resource", detail)
        elif item.get("fieldRef") is None and item.get("resourceFieldRef") is None:
            yield errors.required(path, "one of fieldRef and resourceFieldRef is required")
        yield from mode(item.get("mode"), f"{path}.mode")


def _token(source: Object, path: str) -> Errors:
    seconds = source.get("expirationSeconds")
    if seconds is not None and seconds < _LEAST_TOKEN_SECONDS:
        yield errors.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > _MOST_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield errors.invalid(f"{path}.expirationSeconds", seconds, detail)
    if not source.get("path"):
        yield errors.required(f"{path}.path")
    else:
        yield from paths.non_reserved(source["path"], f"{path}.path")


def _trust_bundle(source: Object, path: str) -> Errors:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        yield errors.invalid(path, "", "only one of name and signerName may be used")
    elif name is not None:
        owner = ":".join(name.split(":")[:2]).replace(":", "/") if name.count(":") >= 2 else ""
        for detail in [bundle_name(name, owner)] if name else ["must be a valid object name"]:
            if detail:
                yield errors.invalid(f"{path}.name", name, f"not a valid clustertrustbundlename: {detail}")
        if source.get("labelSelector") is not None:
            yield errors.invalid(f"{path}.labelSelector", "", "labelSelector must be unset if name is specified")
    elif signer is not None:
        yield from signer_name(signer, f"{path}.signerName")
        yield from metadata.label_selector(mapping(source.get("labelSelector")), f"{path}.labelSelector")
    else:
        yield errors.required(path, "either name or signerName must be specified")
    if not source.get("path"):
        yield errors.required(f"{path}.path")
    yield from paths.non_reserved(source.get("path") or "", f"{path}.path")


def _certificate(source: Object, path: str) -> Errors:
    signer = str(source.get("signerName") or "")
    yield from signer_name(signer, f"{path}.signerName")
    for key in mapping(source.get("userAnnotations")):
        if "/" not in key or not names.is_label_key(key.lower()):
            yield errors.invalid(
                f"{path}.userAnnotations", key, 'must be a domain-prefixed key (such as "acme.io/foo")'
            )
    if source.get("keyType") not in _KEY_TYPES:
        yield errors.not_supported(f"{path}.keyType", source.get("keyType") or "", _KEY_TYPES)
    seconds, most = source.get("maxExpirationSeconds"), most_seconds(signer)
    if seconds is not None and seconds < _LEAST_CERTIFICATE_SECONDS:
        detail = f"if provided, maxExpirationSeconds must be >= {_LEAST_CERTIFICATE_SECONDS}"
        yield errors.invalid(f"{path}.maxExpirationSeconds", seconds, detail)
    elif seconds is not None and seconds > most:
        detail = f"if provided, maxExpirationSeconds must be <= {most}"
        yield errors.invalid(f"{path}.maxExpirationSeconds", seconds, detail)
    given = [member for member in _PATHS if source.get(member)]
    for member in given:
        yield from paths.non_reserved(source[member], f"{path}.{member}")
    if not given:
        detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        yield errors.required(path, detail)


_CHECKS: Final = {
    "secret": _named,
    "configMap": _named,
    "downwardAPI": downward,
    "serviceAccountToken": _token,
    "clusterTrustBundle": _trust_bundle,
    "podCertificate": _certificate,
}
