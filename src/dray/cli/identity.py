"""Lint rules about `apiVersion` and `kind`: whether an API server serves them.

Kinds that the catalogue does not have belong to somebody else and are left alone, unless they pretend to be
in a group that it knows in full.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from dray.api.catalogue import KINDS, RESOURCE_GROUP, SCHEDULING_GROUP, find, split_api_version
from dray.cli.findings import Finding, error
from dray.cli.manifests import Manifest

_DRA_KINDS: Final = frozenset(kind.name for kind in KINDS if kind.group == RESOURCE_GROUP)
_REMOVED_VERSIONS: Final = {"v1alpha1": "1.27", "v1alpha2": "1.31"}
_ONCE_IN_V1ALPHA3: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"})


def identity(manifest: Manifest) -> Iterator[Finding]:
    for member in ("apiVersion", "kind"):
        value = manifest.document.get(member)
        if not isinstance(value, str) or not value:
            hint = "every object has apiVersion and kind; is this a Kubernetes manifest?"
            yield error("unknown-kind", manifest, member, "Required value: must be a non-empty string", hint)
            return
    if find(manifest.api_version, manifest.kind) is not None:
        return
    group, version = split_api_version(manifest.api_version)
    if group == RESOURCE_GROUP and _is_removed(version, manifest.kind):
        yield _removed(manifest, version)
    elif group in (RESOURCE_GROUP, SCHEDULING_GROUP):
        yield _not_served(manifest, group)
    elif manifest.kind in _DRA_KINDS and _almost_the_group(group):
        message = f"there is no kind {manifest.kind} in {manifest.api_version}"
        yield error("unknown-kind", manifest, "apiVersion", message, f"write {RESOURCE_GROUP}/v1")


def _almost_the_group(group: str) -> bool:
    return not group or bool(difflib.get_close_matches(group, [RESOURCE_GROUP], cutoff=0.8))


def is_foreign(manifest: Manifest) -> bool:
    """Whether the object belongs to somebody else, so that only its pod template, if any, is looked at."""
    return find(manifest.api_version, manifest.kind) is None and not any(identity(manifest))


def _is_removed(version: str, kind: str) -> bool:
    return version in _REMOVED_VERSIONS or (version == "v1alpha3" and kind in _ONCE_IN_V1ALPHA3)


def _removed(manifest: Manifest, version: str) -> Finding:
    since = f" since Kubernetes {_REMOVED_VERSIONS[version]}" if version in _REMOVED_VERSIONS else ""
    message = f"{manifest.api_version} {manifest.kind} was removed: no API server serves it{since}"
    return error("removed-version", manifest, "apiVersion", message, "dray convert rewrites it")


def _not_served(manifest: Manifest, group: str) -> Finding:
    served = {kind.name: kind for kind in KINDS if kind.group == group}
    message = f"there is no kind {manifest.kind} in {manifest.api_version}"
    if manifest.kind in served:
        versions = ", ".join(version.name for version in served[manifest.kind].versions)
        return error("unknown-kind", manifest, "apiVersion", message, f"{manifest.kind} has the versions {versions}")
    close = difflib.get_close_matches(manifest.kind, served, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else f"{group} has {', '.join(served)}"
    return error("unknown-kind", manifest, "kind", message, hint)
