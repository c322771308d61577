"""Labels that a node may not put on itself, because workloads are steered by them.

In the namespaces of Kubernetes only those that a kubelet is known to set are free; `node-restriction.kubernetes.io/`
is never free. All other labels are the node's own business.
"""

from __future__ import annotations

from collections.abc import Mapping

_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    }
)
_KUBELET_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESTRICTED = "node-restriction.kubernetes.io"


def forbidden(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Returns the forbidden labels that were added, changed or removed."""
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return sorted(key for key in changed if not _is_free(key))


def _is_free(key: str) -> bool:
    namespace = key.partition("/")[0] if "/" in key else ""
    if _within(namespace, _RESTRICTED):
        return False
    if not (_within(namespace, "kubernetes.io") or _within(namespace, "k8s.io")):
        return True
    return key in _KUBELET_LABELS or any(_within(namespace, allowed) for allowed in _KUBELET_NAMESPACES)


def _within(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith("." + domain)
