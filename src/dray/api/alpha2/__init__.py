"""Conversion of the removed resource.k8s.io/v1alpha2 to v1.

v1alpha2 (Kubernetes 1.27 to 1.30) left the choice of devices to vendors: a claim named a ResourceClass and
parameters in a vendor's own kind. v1 describes devices and requests itself, so the way back is an
interpretation: what has a place in v1 is carried over, and everything else becomes a `Note` that names the
field and says what to do instead. Nothing is dropped without one. Manifests in the wild often mix v1alpha2
with things it never had (inline parameters, node selectors as constraints); those are understood as what
their author meant.

`to_v1` takes one document and, as `beside`, the others of the same set: parameters and classes that it
refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.api.alpha2 import types
from dray.api.alpha2.claims import convert_claim, convert_template, without_source
from dray.api.alpha2.classes import convert_class
from dray.api.alpha2.parameters import ReferencedDocuments
from dray.api.alpha2.types import Note, Notes
from dray.api.conversion import ConversionError, unreadable, wrong_types
from dray.api.objects import text

API_VERSION = "resource.k8s.io/v1alpha2"

__all__ = ["API_VERSION", "Note", "to_v1", "without_source"]

_DROPPED = {
    "PodScheduling": "dropped: schedulers no longer negotiate with drivers, so nothing replaces it",
    "PodSchedulingContext": "dropped: schedulers no longer negotiate with drivers, so nothing replaces it",
    "ResourceClaimParameters": "no object in v1: its content goes into the claims that refer to it",
    "ResourceClassParameters": "no object in v1: its content goes into the classes that refer to it",
    "ResourceSlice": "dropped: drivers publish slices themselves; install a version of the driver for v1",
}
_CONVERTERS = {
    "ResourceClass": convert_class,
    "ResourceClaim": convert_claim,
    "ResourceClaimTemplate": convert_template,
}


def to_v1(
    document: dict[str, Any], *, beside: Sequence[dict[str, Any]] = (), selected: bool = False
) -> tuple[list[dict[str, Any]], list[Note]]:
    """The v1 objects for a v1alpha2 document (none or one), and what could not be carried over.

    `selected` says that the pods that use a claim take over its node selectors, which v1 has no place for. Raises
    ConversionError where a field is not of its type.
    """
    kind = text(document.get("kind"))
    if problems := types.wrong_types(document, kind):
        raise unreadable(problems)
    if kind in _DROPPED:
        return [], [Note("", _DROPPED[kind])]
    if kind not in _CONVERTERS:
        raise ConversionError(f"{API_VERSION} has no kind {kind!r}")
    notes = Notes()
    converted = _CONVERTERS[kind](document, ReferencedDocuments(beside, selected), notes)
    if problems := wrong_types(converted):
        raise unreadable(problems)
    return [converted], notes.found
