"""Lint rules about the ResourceSlices of a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from dray.answers.linting.findings import Finding, warning
from dray.answers.linting.rules.references import Given
from dray.answers.manifests.claim_specs import group_name
from dray.answers.manifests.reading import Manifest
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object, mapping, mappings, text, walk


def incomplete_pool(manifest: Manifest, given: Given) -> Iterator[Finding]:
    """Yields at most one finding for a pool, about its first slice in the files."""
    slices = _newest_slices(manifest, given)
    if not slices or slices[0] is not manifest:
        return
    wanted = walk(manifest.document, "spec", "pool").get("resourceSliceCount")
    if isinstance(wanted, int) and len(slices) != wanted:
        pool = walk(manifest.document, "spec", "pool").get("name")
        message = f"the pool {pool!r} has {wanted} slices, and {len(slices)} of this generation are in the given files"
        hint = "no device of a pool is allocated until all its slices exist"
        yield warning("incomplete-pool", manifest, "spec.pool.resourceSliceCount", message, hint)


def unknown_counter_set(manifest: Manifest, given: Given) -> Iterator[Finding]:
    slices = _newest_slices(manifest, given)
    wanted = walk(manifest.document, "spec", "pool").get("resourceSliceCount")
    if not slices or len(slices) != wanted:
        # A slice that is not in the files may have the counter set.
        return
    known = {
        text(counters.get("name")): set(mapping(counters.get("counters")))
        for resource_slice in slices
        for counters in mappings(walk(resource_slice.document, "spec").get("sharedCounters"))
    }
    for index, device in enumerate(mappings(walk(manifest.document, "spec").get("devices"))):
        body = mapping(device.get("basic")) or device
        path = f"spec.devices[{index}]{'.basic' if 'basic' in device else ''}.consumesCounters"
        for number, consumed in enumerate(mappings(body.get("consumesCounters"))):
            yield from _unknown_counters(manifest, f"{path}[{number}]", consumed, known)


def _unknown_counters(manifest: Manifest, path: str, consumed: Object, known: dict[str, set[str]]) -> Iterator[Finding]:
    name = text(consumed.get("counterSet"))
    if name not in known:
        message = f"no slice of the pool has a counter set {name!r}"
        hint = f"the pool has {', '.join(sorted(known)) or 'none'}; a device without its counters is never allocated"
        yield warning("unknown-counter-set", manifest, f"{path}.counterSet", message, hint)
        return
    for counter in mapping(consumed.get("counters")):
        if counter not in known[name]:
            message = f"the counter set {name!r} has no counter {counter!r}"
            hint = f"it has {', '.join(sorted(known[name])) or 'none'}"
            yield warning("unknown-counter-set", manifest, f"{path}.counters[{counter}]", message, hint)


RULES: Final[tuple[Callable[[Manifest, Given], Iterator[Finding]], ...]] = (incomplete_pool, unknown_counter_set)


def _newest_slices(manifest: Manifest, given: Given) -> list[Manifest]:
    """Returns the slices of the newest generation of the pool; empty if the manifest is not one of them."""
    if manifest.kind != "ResourceSlice" or group_name(manifest.document) != RESOURCE_GROUP:
        return []
    same: list[Manifest] = _slices_by_pool(given)[_pool_key(manifest)]
    newest = max(map(_generation, same))
    if _generation(manifest) != newest:
        return []
    return [resource_slice for resource_slice in same if _generation(resource_slice) == newest]


def _slices_by_pool(given: Given) -> dict[tuple[str, str], list[Manifest]]:
    pools: dict[tuple[str, str], list[Manifest]] | None = given.memo.get("pools")
    if pools is None:
        pools = given.memo["pools"] = {}
        for resource_slice in given.of("ResourceSlice"):
            pools.setdefault(_pool_key(resource_slice), []).append(resource_slice)
    return pools


def _pool_key(manifest: Manifest) -> tuple[str, str]:
    spec = walk(manifest.document, "spec")
    return text(spec.get("driver")), text(walk(spec, "pool").get("name"))


def _generation(manifest: Manifest) -> int:
    number = walk(manifest.document, "spec", "pool").get("generation")
    return number if isinstance(number, int) else 0
