"""Discovery: what is served, in the plain form (a document a group version) and the aggregated one (all at once)."""

from __future__ import annotations

import base64
import hashlib

from dray.api.catalogue import RESOURCE_GROUP, split_api_version
from dray.api.objects import Object
from dray.api.wire_types import type_of
from dray.server import removed_versions, status
from dray.server.resource_metrics import METRICS
from dray.server.resource_registry import ResourceRegistry
from dray.server.resources import Resource
from dray.server.reviews import REVIEWS, Review
from dray.server.subresources import part_verbs

_NOT_STORED = (*REVIEWS, *METRICS)
# (kind, apiVersion) that clients post to a subresource, if it is not the kind itself.
_PART_KINDS = {
    "binding": ("Binding", ""),
    "eviction": ("Eviction", "policy/v1"),
    "token": ("TokenRequest", "authentication.k8s.io/v1"),
    "scale": ("Scale", "autoscaling/v1"),
    "exec": ("PodExecOptions", ""),
    "attach": ("PodAttachOptions", ""),
    "portforward": ("PodPortForwardOptions", ""),
}


def _group_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def api_versions() -> Object:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


def group_list(registry: ResourceRegistry) -> Object:
    groups = [_group(registry, group) for group in group_names(registry) if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_names(registry: ResourceRegistry) -> list[str]:
    return list(dict.fromkeys([*registry.groups(), *(item.group for item in _NOT_STORED)]))


def built_in_groups(registry: ResourceRegistry) -> set[str]:
    return {*registry.built_in_groups, *(item.group for item in _NOT_STORED)}


def versions(registry: ResourceRegistry, group: str) -> list[str]:
    found = registry.versions(group)
    return found or sorted({item.version for item in _NOT_STORED if item.group == group})


def one_group(registry: ResourceRegistry, group: str) -> Object:
    if not group or not versions(registry, group):
        raise status.no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}


def _group(registry: ResourceRegistry, group: str) -> Object:
    listed = [{"groupVersion": _group_version(group, v), "version": v} for v in versions(registry, group)]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _served(registry: ResourceRegistry, group: str, version: str) -> list[Resource | Review]:
    reviews = [item for item in _NOT_STORED if (item.group, item.version) == (group, version)]
    return [*registry.resources(group, version), *reviews]


def resource_list(registry: ResourceRegistry, group: str, version: str) -> Object:
    resources: list[Object] = []
    for item in _served(registry, group, version):
        resources.append(_resource(item))
        if isinstance(item, Resource):
            resources += [_part(item, part) for part in sorted(item.subresources)]
    if not resources:
        raise status.no_such_path()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": _group_version(group, version),
        "resources": sorted(resources, key=lambda item: str(item["name"])),
    }


def _resource(item: Resource | Review) -> Object:
    return {
        "name": item.plural,
        "singularName": item.singular,
        "namespaced": item.namespaced,
        "kind": item.kind,
        "verbs": list(item.verbs),
        **_other_names(item),
        **({"storageVersionHash": _hash(item)} if isinstance(item, Resource) and "watch" in item.verbs else {}),
    }


def _other_names(item: Resource | Review) -> Object:
    names = {"shortNames": list(item.short_names), "categories": list(item.categories)}
    return {member: given for member, given in names.items() if given}


def _hash(resource: Resource) -> str:
    text = "/".join((*split_api_version(resource.storage_api_version), resource.kind))
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def part_type(resource: Resource, part: str) -> str | None:
    """Returns the wire type of a subresource; None if it is the object itself.

    Options are sent in the query, not as an object.
    """
    kind, api_version = _PART_KINDS.get(part, ("", ""))
    return type_of(api_version or "v1", kind) if kind and not kind.endswith("Options") else None


def _part_kind(resource: Resource, part: str) -> tuple[str, str]:
    if part == "proxy":
        return f"{resource.kind}ProxyOptions", ""
    return _PART_KINDS.get(part, (resource.kind, ""))


def _part(resource: Resource, part: str) -> Object:
    kind, api_version = _part_kind(resource, part)
    group, version = split_api_version(api_version) if api_version else ("", "")
    return {
        "name": f"{resource.plural}/{part}",
        "singularName": "",
        "namespaced": resource.namespaced,
        **({"group": group, "version": version} if version else {}),
        "kind": kind,
        "verbs": part_verbs(resource, part),
    }


def aggregated(registry: ResourceRegistry, *, core: bool) -> Object:
    """Returns all groups with their versions and resources; `core` for the core group, as served at /api."""
    groups = [""] if core else [group for group in group_names(registry) if group]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    *(_aggregated_version(registry, group, version) for version in versions(registry, group)),
                    *([_removed_version()] if group == RESOURCE_GROUP else ()),
                ],
            }
            for group in groups
        ],
    }


def _removed_version() -> Object:
    """Returns a removed version, for kubectl, which reads only this form; the plain form has Kubernetes' versions."""
    resources = [_aggregated_resource(item) for item in removed_versions.KINDS]
    return {"version": removed_versions.VERSION, "resources": resources, "freshness": "Current"}


def _aggregated_version(registry: ResourceRegistry, group: str, version: str) -> Object:
    resources = [_aggregated_resource(item) for item in _served(registry, group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _aggregated_resource(item: Resource | Review) -> Object:
    parts = [_aggregated_part(item, part) for part in sorted(item.subresources)] if isinstance(item, Resource) else []
    return {
        "resource": item.plural,
        "responseKind": {"group": item.group, "version": item.version, "kind": item.kind},
        "scope": "Namespaced" if item.namespaced else "Cluster",
        "singularResource": item.singular,
        "verbs": list(item.verbs),
        **_other_names(item),
        **({"subresources": parts} if parts else {}),
    }


def _aggregated_part(resource: Resource, part: str) -> Object:
    kind, api_version = _part_kind(resource, part)
    group, version = split_api_version(api_version) if api_version else (resource.group, resource.version)
    response = {"group": group, "version": version, "kind": kind}
    return {"subresource": part, "responseKind": response, "verbs": part_verbs(resource, part)}
