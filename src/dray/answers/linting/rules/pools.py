"""Lint rules about pools: ResourceSlices that belong together."""

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
    """Said once, of the first slice that is given."""
    slices = _pool(manifest, given)
    if not slices or slices[0] is not manifest:
        return
    wanted = walk(manifest.document, "spec", "pool").get("resourceSliceCount")
    if isinstance(wanted, int) and len(slices) != wanted:
        pool = walk(manifest.document, "spec", "pool").get("name")
        message = f"the pool {pool!r} has {wanted} slices, and {len(slices)} of this generation are in the given files"
        hint = "no device of a pool is allocated until all its slices exist"
        yield warning("incomplete-pool", manifest, "spec.pool.resourceSliceCount", message, hint)


def unknown_counter_set(manifest: Manifest, given: Given) -> Iterator[Finding]:
    slices = _pool(manifest, given)
    wanted = walk(manifest.document, "spec", "pool").get("resourceSliceCount")
    if not slices or len(slices) != wanted:
        # It may be in a slice that is not given.
        return
    known = {
        text(counters.get("name")): set(mapping(counters.get("counters")))
        for each in slices
        for counters in mappings(walk(each.document, "spec").get("sharedCounters"))
    }
    for index, device in enumerate(mappings(walk(manifest.document, "spec").get("devices"))):
        body = mapping(device.get("basic")) or device
        path = f"spec.devices[{index}]{'.basic' if 'basic' in device else ''}.consumesCounters"
        for number, consumed in enumerate(mappings(body.get("consumesCounters"))):
            yield from _unknown(manifest, f"{path}[{number}]", consumed, known)


def _unknown(manifest: Manifest, path: str, consumed: Object, known: dict[str, set[str]]) -> Iterator[Finding]:
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


def _pool(manifest: Manifest, given: Given) -> list[Manifest]:
    """The given slices of the same pool and generation; none where it is not a slice, or not of the newest one."""
    if manifest.kind != "ResourceSlice" or group_name(manifest.document) != RESOURCE_GROUP:
        return []
    same: list[Manifest] = _pools(given)[_key(manifest)]
    newest = max(map(_generation, same))
    return [each for each in same if _generation(each) == newest] if _generation(manifest) == newest else []


def _pools(given: Given) -> dict[tuple[str, str], list[Manifest]]:
    pools: dict[tuple[str, str], list[Manifest]] | None = given.memo.get("pools")
    if pools is None:
        pools = given.memo["pools"] = {}
        for each in given.of("ResourceSlice"):
            pools.setdefault(_key(each), []).append(each)
    return pools


def _key(manifest: Manifest) -> tuple[str, str]:
    spec = walk(manifest.document, "spec")
    return text(spec.get("driver")), text(walk(spec, "pool").get("name"))


def _generation(manifest: Manifest) -> int:
    number = walk(manifest.document, "spec", "pool").get("generation")
    return number if isinstance(number, int) else 0
