"""Parameters of policies: the objects that a binding's paramRef names."""

from __future__ import annotations

from dray.api import label_selectors
from dray.api.objects import Object, labels_of, mapping
from dray.server import reads
from dray.server.admission.dynamic.request import AdmissionRequest
from dray.server.fieldmanager.tracked_kinds import Unconvertible

Params = list[Object | None]


class ConfigurationError(Exception):
    """Raised if a policy or binding is configured so that it cannot be evaluated."""


async def params_of(spec: Object, binding: Object, request: AdmissionRequest) -> Params:
    """Returns the parameter objects of a binding; None stands for no parameters. Raises ConfigurationError."""
    kind, reference = spec.get("paramKind"), mapping(binding.get("paramRef"))
    if kind is None or not reference:
        return [None]
    resource = request.context.registry.of_kind(kind.get("apiVersion") or "", kind.get("kind") or "")
    if resource is None:
        named = f"{kind.get('apiVersion')}, Kind={kind.get('kind')}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{named}'")
    namespace = ""
    if resource.namespaced:
        namespace = reference.get("namespace") or request.namespace
        if not namespace:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif reference.get("namespace"):
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    store, found = request.context.store, []
    if reference.get("name"):
        record = store.get(resource.key(namespace, reference["name"]))
        found = [record] if record is not None else []
    else:
        prefix = f"{resource.key_prefix}{namespace}/" if namespace else resource.key_prefix
        found = list(store.list(prefix).records)
    try:
        found = await reads.converted(resource, found)
    except Unconvertible as error:
        raise ConfigurationError(error.message) from None
    objects = [resource.answer(resource.read(record.value)) for record in found]
    if reference.get("selector"):
        matches = label_selectors.from_object(reference["selector"])
        objects = [obj for obj in objects if matches(labels_of(obj))]
    if not objects and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return list(objects)
