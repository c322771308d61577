"""Namespaces: they must exist before anything is put in them, carry their own name as a label, and some never go."""

from __future__ import annotations

from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.context import Context
from dray.server.resources import Resource

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
_LASTING = ("default", "kube-system", "kube-public")


def require_namespace(context: Context, resource: Resource, namespace: str, name: str) -> None:
    """Refuses to create in a namespace that is not there or on its way out."""
    if not resource.namespaced:
        return
    found = context.namespace(namespace)
    if found is None:
        raise status.not_found("", "namespaces", namespace)
    if found["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise status.forbidden(resource.group, resource.plural, name, why, [cause])


def fill(attributes: Attributes) -> None:
    if attributes.kind != ("", "Namespace"):
        return
    namespace = attributes.obj
    finalizers = namespace["spec"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    namespace["status"] = {"phase": "Active"}
    keep_label(attributes)


def keep_label(attributes: Attributes) -> None:
    if attributes.kind != ("", "Namespace"):
        return
    metadata = attributes.obj["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}


def protect(attributes: Attributes) -> None:
    if attributes.kind == ("", "Namespace") and attributes.name in _LASTING:
        raise attributes.forbid("this namespace may not be deleted")
