"""Kinds that are stored and that nothing acts upon: a warning for their writers, and what Kubernetes fills in."""

from __future__ import annotations

from dray.api.cluster_kinds import NETWORKING_GROUP
from dray.api.objects import annotations_of, mapping
from dray.server import documents
from dray.server.admission import default_classes
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_OLD_CLASS = "kubernetes.io/ingress.class"
_INGRESS_CLASSES = key_prefix(NETWORKING_GROUP, "ingressclasses")


def warn(attributes: Attributes) -> None:
    text = attributes.resource.stored_only
    if text and not attributes.subresource and text not in attributes.warnings and not _is_complete(attributes):
        attributes.warnings.append(text)


def _is_complete(attributes: Attributes) -> bool:
    """Returns True for a Service without a cluster IP: a headless one, or an ExternalName."""
    if attributes.resource.kind != "Service" or attributes.resource.group:
        return False
    return (attributes.obj.get("spec") or {}).get("clusterIP") in (None, "", "None")


def warn_of_lending(attributes: Attributes) -> None:
    """Warns that lending and borrowing of a priority level have no effect here."""
    limited = mapping(attributes.obj["spec"].get("limited"))
    if limited.get("lendablePercent") or limited.get("borrowingLimitPercent"):
        text = "priority levels do not lend seats here: lendablePercent and borrowingLimitPercent have no effect"
        if not attributes.subresource and text not in attributes.warnings:
            attributes.warnings.append(text)


def choose_ingress_class(attributes: Attributes) -> None:
    """Sets the default class of an Ingress without class, if there is one."""
    spec = attributes.obj["spec"]
    if spec.get("ingressClassName") is not None or annotations_of(attributes.obj).get(_OLD_CLASS):
        return
    classes = (documents.decode(record.value) for record in attributes.context.store.list(_INGRESS_CLASSES).records)
    default = default_classes.chosen(found for found in classes if annotations_of(found).get(_DEFAULT) == "true")
    if default is not None:
        spec["ingressClassName"] = default


def mark_available(attributes: Attributes) -> None:
    """Sets the condition Available of an APIService: true for local ones, false for others, which are not proxied."""
    local = attributes.obj["spec"].get("service") is None
    if attributes.old is not None and local == (attributes.old["spec"].get("service") is None):
        return
    condition = {
        "type": "Available",
        "status": "True" if local else "False",
        "lastTransitionTime": attributes.context.now(),
        "reason": "Local" if local else "NotAggregated",
        "message": "Local APIServices are always available"
        if local
        else "requests are not passed on to other API servers",
    }
    attributes.obj["status"] = {"conditions": [condition]}
