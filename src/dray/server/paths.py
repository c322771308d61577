"""The path of a request, taken apart.

`/api/v1/…` is the core group, `/apis/<group>/<version>/…` every other. What follows is
`[namespaces/<namespace>/]<plural>[/<name>[/<subresource>]]`; the namespaces themselves are the one kind whose path
begins like a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.caches import remember


@dataclass(frozen=True, slots=True)
class ResourcePath:
    group: str
    version: str
    namespace: str
    plural: str
    name: str = ""
    subresource: str = ""
    # The path after the subresource, as in `proxy/some/path`.
    rest: str = ""


_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


def segments(path: str) -> list[str]:
    """Returns the parts of a decoded path; a trailing slash is ignored."""
    return path.strip("/").split("/")


@remember(4096, longest=1024)
def parse(path: str) -> ResourcePath | None:
    """Returns the resource that a path names; None for other paths."""
    parts = segments(path)
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_itself(group, rest):
        namespace, rest = rest[1], rest[2:]
    if not all(rest[:3]):
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return ResourcePath(group, version, namespace, plural, name, subresource, "/".join(rest[3:]))


def _is_namespace_itself(group: str, rest: list[str]) -> bool:
    return not group and len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES
