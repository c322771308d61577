"""Reviews (SubjectAccessReview, TokenReview and others): resources that are answered and not stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dray.api.objects import mapping
from dray.server import bodies, negotiation, status
from dray.server.authorization import Access
from dray.server.context import Context
from dray.server.paths import ResourcePath
from dray.server.requests import Answer, Request, document


@dataclass(frozen=True, slots=True)
class Review:
    """A kind whose objects are computed on request, such as reviews."""

    group: str
    plural: str
    kind: str
    namespaced: bool = False
    version: str = "v1"
    verbs: tuple[str, ...] = ("create",)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def singular(self) -> str:
        return self.kind.lower()


REVIEWS = (
    Review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    Review("authentication.k8s.io", "tokenreviews", "TokenReview"),
    Review("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
    Review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    Review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    Review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
)
_BY_PATH = {(item.group, item.version, item.plural): item for item in REVIEWS}


async def answer(context: Context, request: Request, path: ResourcePath, query: Mapping[str, str]) -> Answer:
    item = _BY_PATH.get((path.group, path.version, path.plural))
    if item is None or path.name or item.namespaced != bool(path.namespace):
        raise status.no_such_path()
    if request.method != "POST":
        raise status.method_not_allowed(request.method)
    negotiation.check_object(request.headers.get("accept", ""))
    user = request.user
    context.security.authorize(user, Access("create", path.group, path.plural, namespace=path.namespace))
    body = await bodies.read(context, request)
    if body.get("kind") not in (None, "", item.kind):
        raise status.bad_request(f"the body is a {body.get('kind')}, not a {item.kind}")
    body["spec"] = mapping(body.get("spec"))
    try:
        answered = context.security.review(item.kind, user, body, path.namespace)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise status.bad_request(f"{item.kind} cannot be read: {error}") from error
    return document(answered, 201)
