"""The kinds that publishing works on."""

from __future__ import annotations

from typing import Final

from dray.api.catalogue import built_in

RESOURCE_SLICES: Final = built_in("resource.k8s.io/v1", "ResourceSlice")
NODES: Final = built_in("v1", "Node")
