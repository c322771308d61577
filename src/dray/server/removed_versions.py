"""Versions of resource.k8s.io that Kubernetes has removed: listed, and answered with how to rewrite a manifest.

kubectl refuses a kind that discovery does not list, without asking the server, and its message says nothing about
conversion. So the kinds of v1alpha2 are listed with the verb `create` alone, which controllers that list and delete
everything pass over, and every request for them is refused.
"""

from __future__ import annotations

from typing import Final

from dray.api.catalogue import RESOURCE_GROUP
from dray.server import status
from dray.server.paths import ResourcePath
from dray.server.reviews import Review

VERSION: Final = "v1alpha2"


def _kind(plural: str, kind: str, *, namespaced: bool = True) -> Review:
    return Review(RESOURCE_GROUP, plural, kind, namespaced, VERSION)


KINDS: Final = (
    _kind("podschedulingcontexts", "PodSchedulingContext"),
    _kind("resourceclaims", "ResourceClaim"),
    _kind("resourceclaimparameters", "ResourceClaimParameters"),
    _kind("resourceclaimtemplates", "ResourceClaimTemplate"),
    _kind("resourceclasses", "ResourceClass", namespaced=False),
    _kind("resourceclassparameters", "ResourceClassParameters"),
    _kind("resourceslices", "ResourceSlice", namespaced=False),
)


def refuse(path: ResourcePath) -> None:
    """Raises ApiError for a request that names a removed version."""
    if (path.group, path.version) == (RESOURCE_GROUP, VERSION):
        raise status.bad_request(
            f"{RESOURCE_GROUP}/{VERSION} was removed in Kubernetes 1.31: `dray convert FILE` rewrites the manifest"
        )
