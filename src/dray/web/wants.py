"""What a pod wants of devices, in few words: `8 × gpu.nvidia.com`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.api.objects import Object, key_of, mapping, mappings, spec_of
from dray.api.pods import claim_entries, containers_of
from dray.api.resource_claims import alternatives_of, requests_of

if TYPE_CHECKING:
    from dray.web.view import Question


def wants_of(pod: Object, question: Question) -> Iterator[str]:
    """The requests of its claims, as far as the viewer may read these, and extended resources."""
    amounts: Counter[str] = Counter()
    for entry in claim_entries(pod):
        for request in requests_of(_spec(entry, key_of(pod)[0], question)):
            amounts.update(_request(request))
    for container in containers_of(spec_of(pod)):
        limits = mapping(mapping(container.get("resources")).get("limits"))
        for name, amount in limits.items():
            if "/" in name and str(amount).isdecimal():
                amounts[name] += int(amount)
    for name, number in amounts.items():
        yield f"{number} × {name}" if number else f"all {name}"


def _spec(entry: Object, namespace: str, question: Question) -> Object:
    if template := entry.get("resourceClaimTemplateName"):
        found = question.get("templates", str(template), namespace=namespace)
        return mapping(spec_of(found or {}).get("spec"))
    claim = question.get("claims", str(entry.get("resourceClaimName") or ""), namespace=namespace)
    return spec_of(claim or {})


def _request(request: Object) -> dict[str, int]:
    """Of several alternatives, the first; a request for all devices has no number."""
    first = next(iter(mappings(list(alternatives_of(request)))), {})
    name = str(first.get("deviceClassName") or "")
    every = first.get("allocationMode") == "All"
    count = first.get("count", 1)
    return {name: 0 if every or not isinstance(count, int) else count} if name else {}
