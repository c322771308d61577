"""A CustomResourceDefinition is checked, accepted and established in one write: its kind is served at once."""

from __future__ import annotations

from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.custom import definition_rules, definitions
from dray.server.custom_resource import CustomResource

GROUP = "apiextensions.k8s.io"


def establish(attributes: Attributes) -> None:
    definition, old = attributes.obj, attributes.old
    if attributes.subresource:
        # In Kubernetes a controller would say again what somebody took away.
        definition["status"] = definitions.accepted_status(definition, attributes.context.now())
        return
    definitions.set_defaults(definition)
    problems = definition_rules.check_update(definition, old) if old else definition_rules.check(definition)
    if problems:
        raise status.invalid("CustomResourceDefinition", GROUP, attributes.name, problems)
    spec = definition["spec"]
    if attributes.context.registry.is_built_in(spec["group"], spec["names"]["plural"]):
        raise attributes.forbid(f"{spec['names']['plural']}.{spec['group']} is a kind of the server itself")
    definition["status"] = definitions.accepted_status(definition, attributes.context.now())


def refuse_while_ending(attributes: Attributes) -> None:
    resource = attributes.resource
    if isinstance(resource, CustomResource) and resource.ending:
        message = "create not allowed while custom resource definition is terminating"
        raise status.ApiError(405, "MethodNotAllowed", message)
