"""Lint rules about references between objects.

An API server does not check references, so that objects can be created in any order. In these rules "missing" means
"not in the given files": the object may exist in the cluster. Classes that known drivers install need not be in the
files. An object without a namespace matches every namespace, because the namespace is chosen when it is applied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dray.answers.linting.findings import Finding, warning
from dray.answers.manifests.claim_specs import (
    PodClaim,
    Spec,
    claim_spec,
    container_claims,
    group_name,
    pod_claims,
    pod_spec,
    request_bodies,
    request_names,
)
from dray.answers.manifests.reading import Manifest
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import text
from dray.api.suggestions import closest
from dray.drivers.devices.classes import CLASSES

_DRIVER_CLASSES: Final = frozenset(name for classes in CLASSES.values() for name in classes)
"""The classes that drivers install."""


@dataclass(slots=True)
class Given:
    """The objects of resource.k8s.io in the given files, by kind and name."""

    manifests: list[Manifest]
    named: dict[tuple[str, str], list[Manifest]] = field(default_factory=lambda: defaultdict(list))
    memo: dict[str, Any] = field(default_factory=dict)
    """A cache for rules: what they computed from all objects, by a name."""

    def __post_init__(self) -> None:
        for manifest in self.manifests:
            if group_name(manifest.document) == RESOURCE_GROUP:
                self.named[manifest.kind, manifest.name].append(manifest)

    def find(self, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """Returns the first object of this name in the namespace, or in any namespace if none is given."""
        for manifest in self.named.get((kind, name), ()):
            if not namespace or manifest.namespace in ("", namespace):
                return manifest
        return None

    def of(self, kind: str) -> list[Manifest]:
        """Returns the objects of this kind."""
        return [manifest for (name, _), found in self.named.items() if name == kind for manifest in found]

    def claim_of(self, claim: PodClaim, namespace: str) -> Manifest | None:
        """Returns the claim that the entry of a pod names, or the template; None if it is not in the files."""
        if claim.claim:
            return self.find("ResourceClaim", claim.claim, namespace)
        return self.find("ResourceClaimTemplate", claim.template, namespace)


def missing_class(manifest: Manifest, given: Given) -> Iterator[Finding]:
    claim = claim_spec(manifest.document)
    for request in claim.items("devices", "requests") if claim else ():
        for body in request_bodies(request):
            name = text(body.value.get("deviceClassName"))
            if name and name not in _DRIVER_CLASSES and given.find("DeviceClass", name) is None:
                message = f"DeviceClass {name!r} is not in the given files, and no known driver installs it"
                known = (*_DRIVER_CLASSES, *(device_class.name for device_class in given.of("DeviceClass")))
                similar = closest(name, known)
                hint = f"did you mean {similar}?" if similar else "add it, or --ignore missing-class"
                yield warning("missing-class", manifest, f"{body.path}.deviceClassName", message, hint)


def missing_claim(manifest: Manifest, given: Given) -> Iterator[Finding]:
    for claim in _pod_claims(manifest):
        if claim.claim and given.claim_of(claim, manifest.namespace) is None:
            message = f"ResourceClaim {claim.claim!r} is not in the given files{_namespace_text(manifest)}"
            hint = _missing_hint("ResourceClaim", claim.claim, given)
            yield warning("missing-claim", manifest, f"{claim.path}.resourceClaimName", message, hint)


def missing_template(manifest: Manifest, given: Given) -> Iterator[Finding]:
    for claim in _pod_claims(manifest):
        if claim.template and not claim.claim and given.claim_of(claim, manifest.namespace) is None:
            message = f"ResourceClaimTemplate {claim.template!r} is not in the given files{_namespace_text(manifest)}"
            hint = _missing_hint("ResourceClaimTemplate", claim.template, given)
            yield warning("missing-template", manifest, f"{claim.path}.resourceClaimTemplateName", message, hint)


def _missing_hint(kind: str, name: str, given: Given) -> str:
    """Returns a hint for an object that is missing in the namespace of the pod."""
    elsewhere = given.find(kind, name)
    if elsewhere is not None:
        return f"it is in namespace {elsewhere.namespace}; a pod uses objects of its own namespace only"
    similar = closest(name, (manifest.name for manifest in given.of(kind)))
    return f"did you mean {similar}?" if similar else "create it, or correct the name; the pod waits until it exists"


def unknown_claim_request(manifest: Manifest, given: Given) -> Iterator[Finding]:
    """Yields requests that a container names and its claim does not have; the pod would fail only at its start."""
    pod = pod_spec(manifest.document)
    if pod is None:
        return
    claims = {claim.name: claim for claim in pod_claims(pod)}
    for entry in container_claims(pod):
        request, claim = text(entry.value.get("request")), claims.get(text(entry.value.get("name")))
        known = _request_names_of(claim, manifest, given) if request and claim else None
        if claim and known is not None and request not in known:
            message = f"the claim {claim.name!r} has no request {request!r}"
            hint = f"it has {', '.join(sorted(known)) or 'none'}"
            yield warning("unknown-request", manifest, f"{entry.path}.request", message, hint)


def duplicate_objects(manifests: Iterable[Manifest]) -> Iterator[Finding]:
    first: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        key = (group_name(manifest.document), manifest.kind, manifest.namespace, manifest.name)
        if not manifest.name or not manifest.kind:
            continue
        earlier = first.setdefault(key, manifest)
        if earlier is not manifest:
            message = f"{manifest.title} is already defined in {earlier.source}:{earlier.place.line}"
            hint = "the later one replaces it or is refused; rename or remove one"
            yield warning("duplicate-object", manifest, "metadata.name", message, hint)


RULES: Final[tuple[Callable[[Manifest, Given], Iterator[Finding]], ...]] = (
    missing_class,
    missing_claim,
    missing_template,
    unknown_claim_request,
)


def _pod_claims(manifest: Manifest) -> Iterator[PodClaim]:
    pod = pod_spec(manifest.document)
    if pod is not None:
        yield from pod_claims(pod)


def _request_names_of(claim: PodClaim, manifest: Manifest, given: Given) -> set[str] | None:
    """Returns the request names of a pod's claim; None if the claim is missing or has a removed version."""
    found = given.claim_of(claim, manifest.namespace)
    spec: Spec | None = claim_spec(found.document) if found else None
    if spec is None or "devices" not in spec.value:
        return None
    return {name for name in request_names(spec) if name and "/" not in name}


def _namespace_text(manifest: Manifest) -> str:
    return f" in namespace {manifest.namespace!r}" if manifest.namespace else ""
