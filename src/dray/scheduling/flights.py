"""Decisions that are being written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dray.allocation.usage import claim_key
from dray.api.objects import Object
from dray.scheduling.actions import ClaimWrite
from dray.scheduling.deciding import Placement
from dray.scheduling.groups import Groups
from dray.scheduling.model import Key, Pod
from dray.scheduling.queue import Waiting
from dray.scheduling.wishes import reserved


@dataclass(frozen=True, slots=True)
class Flight:
    waiting: Waiting
    node: str
    claims: Mapping[Key, Object] = field(default_factory=dict)
    """What is being allocated."""
    promised: tuple[Key, ...] = ()
    """The claims of which the pod is becoming a user."""


def claim_writes(groups: Groups, pod: Pod, placement: Placement, results: Mapping[Key, Object]) -> Iterator[ClaimWrite]:
    """What a placement changes about the pod's claims; `results` are the allocations by claim."""
    wanted = placement.wishes
    for entry, claim in zip(wanted.entries, wanted.claims, strict=True):
        if not reserved(claim, pod):
            yield ClaimWrite(claim, results.get(claim_key(claim)), groups.consumer(pod, entry))
    if placement.special is not None:
        claim = placement.special.claim
        yield ClaimWrite(claim, results[claim_key(claim)], groups.consumer(pod, {}), special=True)
