"""Kinds that exist only as what a subresource takes: a Binding, a Scale, the options of `pods/exec`.

They are stored nowhere. Admission sees them in the place of the object that the subresource belongs to.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from dray.api import intake, schema
from dray.api.errors import ErrorType
from dray.api.gates import FeatureGates
from dray.api.intake import Refusal
from dray.api.objects import Object
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.field_types import FieldType, field_type
from dray.server.fieldmanager.tracked_kinds import ignoring


class PartKind:
    """A kind that only a subresource takes, with the methods of a resource that mutating admission needs."""

    def __init__(self, group: str, version: str, kind: str, type_name: str) -> None:
        self.group, self.version, self.kind, self.schema = group, version, kind, type_name
        self.api_version = f"{group}/{version}" if group else version
        self.identity = {"kind": kind, "apiVersion": self.api_version}

    def decode(self, document: Object, now: str, gates: FeatureGates) -> Object | Refusal:
        """Returns the document without unknown members, or a refusal if it is not an object of the kind."""
        if document.get("kind") not in (None, "", self.kind):
            return intake.bad_request(f"the body is a {document.get('kind')}, not a {self.kind}")
        read, problems = schema.read({**document, **self.identity}, self.schema)
        wrong = [problem for problem in problems if problem.type is not ErrorType.UNKNOWN_FIELD]
        if wrong:
            return intake.bad_request(f"{self.kind} cannot be read: {wrong[0].field}: {wrong[0].detail}")
        return {**schema.write(read, self.schema), **self.identity}

    def answer(self, obj: Object) -> Object:
        return {**self.identity, **obj, **self.identity}

    @property
    def tracked(self) -> PartKind:
        return self

    def field_type(self, api_version: str) -> FieldType | None:
        return field_type(self.schema) if api_version == self.api_version else None

    def convert(self, obj: Object, api_version: str) -> Object:
        return obj

    def ignored(self, subresource: str) -> FieldSet:
        return _ignored()

    def blank(self) -> Object:
        return dict(self.identity)


@cache
def _ignored() -> FieldSet:
    return ignoring()


SCALE: Final = PartKind("autoscaling", "v1", "Scale", "autoscaling_v1.Scale")
BINDING: Final = PartKind("", "v1", "Binding", "core_v1.Binding")
EVICTION: Final = PartKind("policy", "v1", "Eviction", "policy_v1.Eviction")
TOKEN_REQUEST: Final = PartKind("authentication.k8s.io", "v1", "TokenRequest", "authentication_v1.TokenRequest")
EXEC_OPTIONS, ATTACH_OPTIONS, PORT_FORWARD_OPTIONS, NODE_PROXY_OPTIONS, POD_PROXY_OPTIONS, SERVICE_PROXY_OPTIONS = (
    PartKind("", "v1", kind, f"core_v1.{kind}")
    for kind in (
        "PodExecOptions",
        "PodAttachOptions",
        "PodPortForwardOptions",
        "NodeProxyOptions",
        "PodProxyOptions",
        "ServiceProxyOptions",
    )
)
