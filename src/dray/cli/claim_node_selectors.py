"""Node selectors in v1alpha2 claims, and the pods that they belong to.

v1 claims do not select nodes. Where a pod that uses such a claim is among the same files, the selector goes into the
pod; a key that the pod has with another value stays the pod's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from dray.answers.manifests.claim_specs import pod_spec
from dray.api import alpha2
from dray.api.errors import render
from dray.api.objects import mapping, mappings, text, walk

Key = tuple[str, str, str]
"""Kind, namespace and name of a claim or template."""
_VERSIONS: Final = (alpha2.API_VERSION, "resource.k8s.io/v1alpha1")
_REFERENCES: Final = {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"}
_SPECS: Final = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}


class ClaimNodeSelectors:
    def __init__(self, documents: Sequence[dict[str, Any]]) -> None:
        self._selectors = {key: selector for document in documents for key, selector in _selectors(document)}
        used = {key for document in documents for key in _used(document)}
        self.moved = frozenset(used & self._selectors.keys())
        """The claims and templates whose selectors pods among the documents take over."""

    def given(
        self, document: dict[str, Any], spec: dict[str, Any], path: str
    ) -> tuple[dict[str, Any], list[alpha2.Note]]:
        """The spec of a pod with the selectors of its claims, the same one if there are none, and notes about it."""
        notes: list[alpha2.Note] = []
        selector = dict(mapping(spec.get("nodeSelector")))
        for key in _used_by(spec, _namespace(document)):
            for name, value in self._selectors.get(key, {}).items():
                if selector.setdefault(name, value) != value:
                    kept = render({name: selector[name]})
                    message = f"{kept} is kept: {key[0]} {key[2]} says {render({name: value})}"
                    notes.append(alpha2.Note(f"{path}.nodeSelector", message))
        changed = selector != mapping(spec.get("nodeSelector"))
        return ({**spec, "nodeSelector": selector} if changed else spec), notes


def key_of(document: dict[str, Any]) -> Key:
    return text(document.get("kind")), _namespace(document), text(walk(document, "metadata").get("name"))


def _namespace(document: dict[str, Any]) -> str:
    return text(walk(document, "metadata").get("namespace")) or "default"


def _selectors(document: dict[str, Any]) -> Iterator[tuple[Key, dict[str, str]]]:
    if document.get("apiVersion") not in _VERSIONS or document.get("kind") not in _SPECS:
        return
    found: dict[str, str] = {}
    for constraint in mappings(walk(document, *_SPECS[document["kind"]]).get("constraints")):
        selector = mapping(constraint.get("nodeSelector"))
        if not all(isinstance(value, str) for value in selector.values()):
            return
        found |= selector
    if found:
        yield key_of(document), found


def _used(document: dict[str, Any]) -> Iterator[Key]:
    spec = pod_spec(document)
    if spec is not None:
        yield from _used_by(spec.value, _namespace(document))


def _used_by(spec: dict[str, Any], namespace: str) -> Iterator[Key]:
    for entry in mappings(spec.get("resourceClaims")):
        for member, kind in _REFERENCES.items():
            name = text(entry.get(member)) or text(mapping(entry.get("source")).get(member))
            if name:
                yield kind, namespace, name
