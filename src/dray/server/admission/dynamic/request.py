"""The write that policies and webhooks are asked about: the object, what it replaces, who sent it, and where it goes.

Objects are kept in hub form and shown in the version that a rule names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.objects import Object
from dray.cel.library.authorizer import Authorizer, Decision, Question, ResourceCheck
from dray.cel.values import Value
from dray.server.admission.attributes import Attributes
from dray.server.authorization import AUTHENTICATED, Access, User
from dray.server.part_kinds import PartKind
from dray.server.resources import Resource
from dray.server.security import users

if TYPE_CHECKING:
    from dray.server.admission.dynamic.matching import Target

DELETE = "DELETE"
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", DELETE: "DeleteOptions"}


class AdmissionRequest:
    def __init__(self, attributes: Attributes, target: Target) -> None:
        self.attributes = attributes
        self.target = target
        self.context = attributes.context
        self.object: Object | None = None if attributes.operation == DELETE else attributes.obj
        self.old: Object | None = attributes.old
        self.name = attributes.place.name if attributes.place else str(attributes.obj["metadata"].get("name") or "")
        self.namespace = attributes.namespace
        self.uid = attributes.context.new_uid()
        self._namespace_object: Object | None = None
        self._shown: list[tuple[str, Object, Object]] = []

    def resource(self, version: str) -> Resource:
        found = self.context.registry.find(self.target.group, version, self.target.plural)
        return found if found is not None else self.attributes.resource

    def shape(self, version: str) -> Resource | PartKind:
        """Returns what decodes and encodes the objects of the request in a version."""
        return self.attributes.part or self.resource(version)

    def shown(self, obj: Object | None, version: str) -> Object | None:
        if obj is None:
            return None
        for seen, known, shown in self._shown:
            if seen == version and known is obj:
                return shown
        answer = self.shape(version).answer(obj)
        self._shown.append((version, obj, answer))
        return answer

    async def prepare(self, version: str) -> None:
        """Converts the objects by webhook if needed; call it before they are shown."""
        own = self.attributes.resource
        if not self._converts(version):
            return
        missing = [
            obj
            for obj in (self.object, self.old)
            if obj is not None and not any(seen == version and known is obj for seen, known, _ in self._shown)
        ]
        if missing:
            converted = await own.in_version([own.answer(obj) for obj in missing], version)
            self._shown += [(version, obj, shown) for obj, shown in zip(missing, converted, strict=True)]

    def _converts(self, version: str) -> bool:
        own = self.attributes.resource
        return own.converts and version != own.version and self.attributes.part is None

    async def replace(self, decoded: Object, version: str) -> None:
        """Replaces the object by what a mutation made of it in a version."""
        own = self.attributes.resource
        if self._converts(version):
            decoded = (await own.in_version([decoded], own.version))[0]
        self.object = decoded

    @property
    def namespace_object(self) -> Object | None:
        """Returns the namespace that the object is in; None for cluster-scoped objects."""
        if self._namespace_object is None and self.namespace and self.target.plural != "namespaces":
            self._namespace_object = self.context.namespace(self.namespace)
        return self._namespace_object

    @property
    def own_namespace(self) -> Object | None:
        """Returns the object whose labels a namespaceSelector matches: the namespace itself if that is written."""
        if self.target.plural == "namespaces" and not self.target.group:
            return self.object or self.old
        return self.namespace_object

    def document(self, version: str) -> Object:
        """Returns `request` of expressions and reviews, without the objects."""
        asked, seen, part = self.attributes.resource, self.resource(version), self.attributes.part
        user = self.attributes.user
        info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
        options: Object | None = None
        if self.target.operation in _OPTIONS:
            options = {"kind": _OPTIONS[self.target.operation], "apiVersion": "meta.k8s.io/v1"}
            if self.attributes.dry_run:
                options["dryRun"] = ["All"]
        return {
            "uid": self.uid,
            "kind": _kind(part or seen),
            "resource": {"group": seen.group, "version": seen.version, "resource": seen.plural},
            "subResource": self.target.subresource,
            "requestKind": _kind(part or asked),
            "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
            "requestSubResource": self.target.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.target.operation,
            "userInfo": info,
            "dryRun": self.attributes.dry_run,
            "options": options,
        }

    def values(self, version: str) -> dict[str, Value]:
        """Returns the values of the expressions' variables by name."""
        return {
            "object": self.shown(self.object, version),
            "oldObject": self.shown(self.old, version),
            "request": self.document(version),
            "namespaceObject": self.namespace_object,
            "authorizer": Authorizer(self._decide),
            "authorizer.requestResource": self.resource_check(),
        }

    def resource_check(self) -> ResourceCheck:
        """Returns the authorizer check for the resource that is written."""
        asked = Question(
            group=self.target.group,
            resource=self.target.plural,
            subresource=self.target.subresource,
            namespace=self.namespace,
            name=self.name,
        )
        return ResourceCheck(self._decide, asked)

    def _decide(self, asked: Question) -> Decision:
        user = self.attributes.user
        if asked.account != ("", ""):
            namespace, name = asked.account
            groups = (*users.service_account_groups(namespace), AUTHENTICATED)
            user = User(users.service_account_name(namespace, name), groups)
        if asked.path:
            access = Access(asked.verb, path=asked.path)
        else:
            place = (asked.subresource, asked.namespace, asked.name)
            access = Access(asked.verb, asked.group, asked.resource, *place, field_selector=asked.field_selector)
        decided = self.context.authorizer.authorize(user, access)
        return Decision(decided.allowed, decided.reason)


def _kind(shape: Resource | PartKind) -> Object:
    return {"group": shape.group, "version": shape.version, "kind": shape.kind}
