"""FlowSchemas: match requests by user and by resource or path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api.objects import Object, mapping, mappings, spec_of, strings
from dray.server import parameters, paths
from dray.server.authorization import User
from dray.server.requests import Request

_ANY = "*"
_ACCOUNT = "system:serviceaccount:"
# Subresources whose duration depends on a pod or a node.
_LASTING = frozenset(("attach", "exec", "log", "portforward", "proxy"))
_ON_ONE = {"PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}


class Flow(NamedTuple):
    """Properties of a request that schemas match; `resource` includes the subresource, and may be empty."""

    user: str
    groups: tuple[str, ...]
    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    path: str = ""

    @property
    def is_lasting(self) -> bool:
        """Returns True for streams, whose duration the client, pod or node decides."""
        return self.resource.rpartition("/")[2] in _LASTING and "/" in self.resource

    @property
    def size(self) -> int:
        return sum(map(len, (self.user, *self.groups, self.group, self.resource, self.namespace, self.path)))


def flow_of(request: Request) -> Flow:
    user: User = request.user
    path = paths.parse(request.path)
    if path is None:
        return Flow(user.name, tuple(user.groups), request.method.lower(), path=request.path)
    resource = f"{path.plural}/{path.subresource}" if path.subresource else path.plural
    return Flow(user.name, tuple(user.groups), _verb(request, path.name), path.group, resource, path.namespace)


def _verb(request: Request, name: str) -> str:
    if request.method in ("GET", "HEAD"):
        if "watch=" in request.query and parameters.boolean(parameters.parse(request.query), "watch"):
            return "watch"
        return "get" if name else "list"
    if request.method == "DELETE" and not name:
        return "deletecollection"
    return _ON_ONE.get(request.method, request.method.lower())


class Schema:
    def __init__(self, obj: Object) -> None:
        self.name, self.uid = str(obj["metadata"]["name"]), str(obj["metadata"]["uid"])
        spec = spec_of(obj)
        self.level = str(mapping(spec.get("priorityLevelConfiguration")).get("name") or "")
        self.precedence = int(spec.get("matchingPrecedence") or 0)
        self._by = mapping(spec.get("distinguisherMethod")).get("type")
        self._rules = mappings(spec.get("rules"))

    def matches(self, flow: Flow) -> bool:
        return any(
            any(_is_subject(subject, flow) for subject in mappings(rule.get("subjects"))) and _is_asked(rule, flow)
            for rule in self._rules
        )

    def distinguished(self, flow: Flow) -> str:
        """Returns the flow that a request belongs to, such as one per user; flows of a level are served in turn."""
        who = {"ByUser": flow.user, "ByNamespace": flow.namespace}.get(str(self._by), "")
        return f"{self.name}/{who}"


def _is_subject(subject: Object, flow: Flow) -> bool:
    match subject.get("kind"):
        case "User":
            return mapping(subject.get("user")).get("name") in (_ANY, flow.user)
        case "Group":
            name = mapping(subject.get("group")).get("name")
            return name == _ANY or name in flow.groups
        case "ServiceAccount":
            account = mapping(subject.get("serviceAccount"))
            prefix = f"{_ACCOUNT}{account.get('namespace')}:"
            name = str(account.get("name"))
            return flow.user.startswith(prefix) if name == _ANY else flow.user == prefix + name
    return False


def _is_asked(rule: Object, flow: Flow) -> bool:
    if flow.resource:
        return any(_is_resource(resources, flow) for resources in mappings(rule.get("resourceRules")))
    return any(
        _has(paths.get("verbs"), flow.verb)
        and any(_is_path(url, flow.path) for url in strings(paths.get("nonResourceURLs")))
        for paths in mappings(rule.get("nonResourceRules"))
    )


def _is_resource(rule: Object, flow: Flow) -> bool:
    if not (_has(rule.get("verbs"), flow.verb) and _has(rule.get("apiGroups"), flow.group)):
        return False
    if not _has(rule.get("resources"), flow.resource):
        return False
    return _has(rule.get("namespaces"), flow.namespace) if flow.namespace else bool(rule.get("clusterScope"))


def _has(values: object, wanted: str) -> bool:
    found: Iterable[str] = strings(values)
    return any(value in (_ANY, wanted) for value in found)


def _is_path(url: str, path: str) -> bool:
    return url in (_ANY, path) or (url.endswith("/*") and path.startswith(url.removesuffix("*")))
