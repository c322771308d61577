"""A CustomResourceDefinition is checked, accepted and established in one write: its kind is served at once."""

from __future__ import annotations

from dray.api.objects import Object
from dray.server import documents, status
from dray.server.admission.attributes import Attributes
from dray.server.context import Context
from dray.server.custom import definition_rules, definitions, naming
from dray.server.custom_resource import CustomResource
from dray.server.resources import key_prefix

GROUP = "apiextensions.k8s.io"
DEFINITIONS = key_prefix(GROUP, "customresourcedefinitions")


def check(attributes: Attributes) -> None:
    """Fills in defaults and checks the definition by itself, which takes up to a second."""
    if attributes.subresource:
        return
    definition, old = attributes.obj, attributes.old
    definitions.set_defaults(definition)
    problems = definition_rules.check_update(definition, old) if old else definition_rules.check(definition)
    if problems:
        raise status.invalid("CustomResourceDefinition", GROUP, attributes.name, problems)


def establish(attributes: Attributes) -> None:
    definition = attributes.obj
    if attributes.subresource:
        # In Kubernetes a controller would write a removed status again.
        definition["status"] = accepted_status(attributes.context, definition)
        return
    spec = definition["spec"]
    if attributes.context.registry.is_built_in(spec["group"], spec["names"]["plural"]):
        raise attributes.forbid(f"{spec['names']['plural']}.{spec['group']} is a kind of the server itself")
    definition["status"] = accepted_status(attributes.context, definition)


def accepted_status(context: Context, definition: Object) -> Object:
    """Returns the status of a definition, given the names that other definitions of its group have."""
    group, own = definition["spec"]["group"], definition["metadata"].get("name")
    present = (documents.decode(record.value) for record in context.store.list(DEFINITIONS).records)
    others = [other for other in present if other["spec"]["group"] == group and other["metadata"]["name"] != own]
    return definitions.accepted_status(definition, naming.taken(others), context.now())


def refuse_while_ending(attributes: Attributes) -> None:
    resource = attributes.resource
    if isinstance(resource, CustomResource) and resource.ending:
        message = "create not allowed while custom resource definition is terminating"
        raise status.ApiError(405, "MethodNotAllowed", message)
