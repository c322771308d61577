"""The paths of a resource and what can be done at them, as documents of version 3 list it."""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object
from dray.server import discovery
from dray.server.negotiation import JSON, PROTOBUF, YAML
from dray.server.openapi import schemas
from dray.server.resources import Resource
from dray.server.reviews import Review
from dray.server.subresources import part_methods

STATUS: Final = schemas.component("meta_v1.Status")
DELETE_OPTIONS: Final = schemas.component("meta_v1.DeleteOptions")
_PATCHES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
# Subresources that connect a client to a node.
_CONNECTIONS: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_VERBS: Final = {"GET": "read", "PUT": "replace", "PATCH": "patch", "POST": "create", "DELETE": "delete"}


def _query(name: str, kind: str = "string") -> Object:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _path(name: str) -> Object:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


_PRETTY = _query("pretty")
_WRITE = [_query("dryRun"), _query("fieldManager"), _query("fieldValidation")]
_LIST = [
    _query("allowWatchBookmarks", "boolean"),
    _query("continue"),
    _query("fieldSelector"),
    _query("labelSelector"),
    _query("limit", "integer"),
    _query("resourceVersion"),
    _query("resourceVersionMatch"),
    _query("sendInitialEvents", "boolean"),
    _query("timeoutSeconds", "integer"),
    _query("watch", "boolean"),
]
_DELETE = [
    _query("dryRun"),
    _query("gracePeriodSeconds", "integer"),
    _query("orphanDependents", "boolean"),
    _query("propagationPolicy"),
]


def place(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


class Operations:
    """The operations of one resource; `one` and `many` are the schema names of the kind and its list."""

    def __init__(self, resource: Resource | Review, one: str, many: str) -> None:
        self._resource = resource
        self._one = one
        self._many = many
        self._produces = (JSON, YAML) if isinstance(resource, Resource) and resource.custom_schema is not None else ()

    def paths(self) -> Object:
        resource = self._resource
        base = place(resource.group, resource.version)
        scope = [_path("namespace")] if resource.namespaced else []
        inside = f"{base}/namespaces/{{namespace}}/{resource.plural}" if scope else f"{base}/{resource.plural}"
        found: Object = {inside: {"parameters": [*scope, _PRETTY], **self._collection()}}
        if not isinstance(resource, Resource):
            return found
        if one := self._object():
            found[f"{inside}/{{name}}"] = {"parameters": [_path("name"), *scope, _PRETTY], **one}
        if resource.namespaced and "list" in resource.verbs:
            listed = self._operation("list", f"{self._camel('')}ForAllNamespaces", "list", answer=self._many)
            found[f"{base}/{resource.plural}"] = {"parameters": [*_LIST, _PRETTY], "get": listed}
        for part in resource.subresources:
            item = self._part(resource, part)
            found[f"{inside}/{{name}}/{part}"] = {"parameters": [_path("name"), *scope, _PRETTY], **item}
        return found

    def _collection(self) -> Object:
        found: Object = {}
        verbs, whole = self._resource.verbs, self._camel(self._scope)
        if "list" in verbs:
            found["get"] = self._operation("list", whole, "list", parameters=_LIST, answer=self._many)
        if "create" in verbs:
            codes = ("200", "201", "202")
            found["post"] = self._operation(
                "create", whole, "post", parameters=_WRITE, body=self._one, answer=self._one, codes=codes
            )
        if "deletecollection" in verbs:
            name = self._camel(f"Collection{self._scope}")
            found["delete"] = self._operation(
                "delete", name, "deletecollection", parameters=[*_LIST[1:8], *_DELETE], body=DELETE_OPTIONS
            )
        return found

    def _object(self) -> Object:
        name, one = self._camel(self._scope), self._one
        gone = STATUS
        if isinstance(self._resource, Resource) and self._resource.returns_deleted:
            gone = one
        every = {
            ("get", "get"): self._operation("read", name, "get", answer=one),
            ("update", "put"): self._operation(
                "replace", name, "put", parameters=_WRITE, body=one, answer=one, codes=("200", "201")
            ),
            ("patch", "patch"): self._patch(name, one),
            ("delete", "delete"): self._operation(
                "delete", name, "delete", parameters=_DELETE, body=DELETE_OPTIONS, answer=gone, codes=("200", "202")
            ),
        }
        return {method: operation for (verb, method), operation in every.items() if verb in self._resource.verbs}

    def _part(self, resource: Resource, part: str) -> Object:
        name = self._camel(self._scope) + part.capitalize()
        if part in _CONNECTIONS:
            return {method.lower(): self._connection(method, part) for method in part_methods(resource, part)}
        type_name = discovery.part_type(resource, part)
        one = schemas.component(type_name) if type_name else self._one
        found: Object = {}
        for method in part_methods(resource, part):
            if method == "PATCH":
                found["patch"] = self._patch(name, one)
                continue
            write = method in ("PUT", "POST")
            found[method.lower()] = self._operation(
                _VERBS[method],
                name,
                method.lower(),
                parameters=_WRITE if write else [],
                body=one if write else "",
                answer=one,
                codes=("200", "201") if write else ("200",),
            )
        return found

    def _connection(self, method: str, part: str) -> Object:
        name = self._camel(f"{method.capitalize()}{self._scope}") + part.capitalize()
        found = self._operation("connect", name, "connect")
        found["responses"]["200"]["content"] = {"*/*": {"schema": {"type": "string"}}}
        return found

    def _operation(
        self,
        verb: str,
        name: str,
        action: str,
        *,
        parameters: list[Object] | None = None,
        body: str = "",
        answer: str = STATUS,
        codes: tuple[str, ...] = ("200",),
    ) -> Object:
        resource = self._resource
        produced = self._produces or (JSON, PROTOBUF, YAML)
        content = {kind: {"schema": schemas.reference(answer)} for kind in produced}
        texts = {"200": "OK", "201": "Created", "202": "Accepted"}
        return {
            "tags": [f"{_group(resource.group)[0].lower()}{_group(resource.group)[1:]}_{resource.version}"],
            "operationId": f"{verb}{name}",
            **({"parameters": parameters} if parameters else {}),
            **({"requestBody": {"content": {JSON: {"schema": schemas.reference(body)}}}} if body else {}),
            "responses": {
                **{code: {"description": texts[code], "content": content} for code in codes},
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": resource.group,
                "kind": resource.kind,
                "version": resource.version,
            },
        }

    def _patch(self, name: str, one: str) -> Object:
        strategic = isinstance(self._resource, Resource) and self._resource.strategic
        kinds = (*_PATCHES, _STRATEGIC) if strategic else _PATCHES
        parameters = [*_WRITE, _query("force", "boolean")]
        operation = self._operation("patch", name, "patch", parameters=parameters, answer=one, codes=("200", "201"))
        operation["requestBody"] = {
            "content": {kind: {"schema": schemas.reference(schemas.PATCH)} for kind in kinds},
            "required": True,
        }
        return operation

    @property
    def _scope(self) -> str:
        return "Namespaced" if self._resource.namespaced else ""

    def _camel(self, scope: str) -> str:
        resource = self._resource
        return f"{_group(resource.group)}{resource.version.capitalize()}{scope}{resource.kind}"


def _group(group: str) -> str:
    """Returns the group for operation names: `rbac.authorization.k8s.io` → `RbacAuthorization`."""
    parts = group.removesuffix(".k8s.io").replace("-", ".").split(".")
    return "".join(part[:1].upper() + part[1:] for part in parts) or "Core"


def resources_operation(group: str, version: str) -> Object:
    """Returns the discovery operation of a group version."""
    content = {kind: {"schema": schemas.reference(RESOURCE_LIST)} for kind in (JSON, PROTOBUF, YAML)}
    name = f"get{_group(group)}{version.capitalize()}APIResources"
    responses = {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}}
    return {"get": {"operationId": name, "responses": responses}}


RESOURCE_LIST: Final = schemas.component("meta_v1.APIResourceList")
