"""Gangs: a warning for whoever makes groups of groups, which are not placed as a whole; groups of pods are."""

from __future__ import annotations

from dray.server.admission.attributes import Attributes

_SEPARATELY = "groups of groups are not scheduled as a whole: each PodGroup of them is placed by itself"


def warn_of_composite(attributes: Attributes) -> None:
    if not attributes.subresource:
        attributes.warnings.append(f"spec: {_SEPARATELY}")


def warn_of_group(attributes: Attributes) -> None:
    """Of one that belongs to a group of groups, and of the template for such."""
    spec = attributes.obj["spec"]
    for member in ("parentCompositePodGroupName", "compositePodGroupTemplates"):
        if spec.get(member) and not attributes.subresource:
            attributes.warnings.append(f"spec.{member}: {_SEPARATELY}")
