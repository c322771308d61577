"""Paths of resources: `/api/v1/...` for the core group, `/apis/group/version/...` for all others."""

from __future__ import annotations

import re
from urllib.parse import quote

from dray.api.caches import remember
from dray.client.interface import Resource

# `quote` takes ten times as long to find out that there is nothing to do.
_PLAIN = re.compile(r"[A-Za-z0-9_.:~-]+")


def collection(resource: Resource, namespace: str = "") -> str:
    root = f"/apis/{_segment(resource.group)}" if resource.group else "/api"
    path = f"{root}/{_segment(resource.version)}"
    if namespace:
        path += f"/namespaces/{_segment(namespace)}"
    return f"{path}/{_segment(resource.plural)}"


def item(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    path = f"{collection(resource, namespace)}/{_segment(name)}"
    return f"{path}/{_segment(subresource)}" if subresource else path


@remember(4096)
def _segment(text: str) -> str:
    """A name that is empty, or that a proxy could take for a way up, would reach something else."""
    if not text or text in (".", "..") or "/" in text or "%" in text:
        raise ValueError(f"{text!r} cannot be a part of a path")
    return text if _PLAIN.fullmatch(text) else quote(text, safe=":")
