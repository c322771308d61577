"""Excerpts of objects: what a sample of the history reads of them, and little else.

While nobody looks at the page, nothing is watched and no object is kept: every sample lists the cluster page by page.
Whole, the objects of 5,000 nodes with 10,000 pods take 400 MB; the excerpts take a tenth of that, and only for a
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from dray.api.objects import Object, mapping, mappings, spec_of
from dray.api.resource_claims import results_of
from dray.web.devices.layouts import kind_of
from dray.web.search.rows import model_of

_METADATA: Final = ("name", "namespace", "creationTimestamp", "deletionTimestamp")
_LARGE: Final = ("attributes", "capacity")


def _slice(document: Object) -> Object:
    spec = spec_of(document)
    driver = str(spec.get("driver"))
    devices = [_device(device, driver) for device in mappings(spec.get("devices"))]
    return {"metadata": _metadata(document), "spec": {**spec, "devices": devices}}


def _device(device: Object, driver: str) -> Object:
    kept = {name: value for name, value in device.items() if name not in _LARGE}
    return {**kept, "attributes": _attributes(model_of(device, driver), kind_of(driver, device))}


_TELLING: Final[Mapping[str, Object]] = {
    "part": {"parentUUID": {"string": ""}},
    "nic": {"dra.net/rdma": {"bool": True}},
    "tpu": {"tpuGen": {"string": ""}},
}
"""Attributes by which `kind_of` knows a kind."""


@lru_cache(maxsize=256)
def _attributes(model: str, kind: str) -> Object:
    """Attributes of a device of this model and kind."""
    name = "model" if kind == "other" else "productName"
    return {name: {"string": model}, **_TELLING.get(kind, {})}


def _claim(document: Object) -> Object:
    allocation = {"devices": {"results": results_of(document)}}
    status = {"allocation": allocation, "devices": mapping(document.get("status")).get("devices") or []}
    return {"metadata": _metadata(document), "status": status}


def _pod(document: Object) -> Object:
    spec, status = {"nodeName": spec_of(document).get("nodeName")}, mapping(document.get("status"))
    return {"metadata": _metadata(document), "spec": spec, "status": {"phase": status.get("phase")}}


def _metadata(document: Object) -> Object:
    metadata = mapping(document.get("metadata"))
    return {name: metadata[name] for name in _METADATA if name in metadata}


def _whole(document: Object) -> Object:
    return document


EXCERPTS: Final[Mapping[str, Callable[[Object], Object]]] = {
    "slices": _slice,
    "claims": _claim,
    "pods": _pod,
    "taintrules": _whole,
}
"""By kind of the model: the function that makes an excerpt. `measure` has the same result for objects and excerpts."""
