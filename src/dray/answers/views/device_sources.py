"""Finds the versions in which a server has the kinds of devices, and reads older versions as the newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.api.catalogue import built_in
from dray.api.objects import Object

if TYPE_CHECKING:
    from dray.api.catalogue import KindVersion
    from dray.client.api import ApiClient

GROUP: Final = "resource.k8s.io"
PODS: Final = built_in("v1", "Pod")


@dataclass(frozen=True, slots=True)
class DeviceSources:
    """The kinds of a server; `rules` is None if the server has no DeviceTaintRules."""

    slices: KindVersion
    claims: KindVersion
    rules: KindVersion | None


async def device_sources(client: ApiClient) -> DeviceSources | None:
    """Returns the kinds of the server; None if it has no ResourceSlices or ResourceClaims."""
    from dray.client.discovery import served_version

    slices = await served_version(client, GROUP, "resourceslices")
    claims = await served_version(client, GROUP, "resourceclaims")
    if slices is None or claims is None:
        return None
    return DeviceSources(slices, claims, await served_version(client, GROUP, "devicetaintrules"))


def as_v1(item: Object, served: KindVersion, kind: str) -> Object:
    from dray.api.conversion import convert

    if served.version == "v1":
        return item
    return convert({**item, "apiVersion": served.api_version, "kind": kind}, "v1")
