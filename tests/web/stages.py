"""The views of the page on a cluster in this process, with viewers of different rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dray.api.objects import Object
from dray.server.authorization import ADMIN, User
from dray.testing.cluster import LocalCluster
from dray.web.access import Identity
from dray.web.model import Model
from dray.web.page import Page, PageLimits
from dray.web.services import Services
from dray.web.views import VIEWS
from tests.web.asgi import Answer, Viewer

GROUP = "rbac.authorization.k8s.io"


class ViewStage:
    """`signed_in("ann")` signs in the user ann, who may do nothing before `grant`."""

    def __init__(self, cluster: LocalCluster, limits: PageLimits | None = None) -> None:
        self.cluster = cluster
        self.revoked: set[str] = set()
        self.services = Services()
        self.page = Page(VIEWS, Model(cluster.client), self, services=self.services, loopback=True, limits=limits)

    def identify(self, scope: Mapping[str, Any], token: str) -> Identity | None:
        if not token:
            return None
        user = ADMIN if token == "admin" else User(token, ("system:authenticated",))
        return Identity(user.name, user.name, self.cluster.client_of(user), lambda: token not in self.revoked)

    async def signed_in(self, name: str = "admin") -> Viewer:
        viewer = Viewer(self.page)
        assert (await viewer.sign_in(token=name)).status == 200
        return viewer

    async def call(self, viewer: Viewer, view: str, call: str, /, **body: Any) -> Any:
        answer = await viewer.send("POST", f"/ui/call/{view}/{call}", body)
        assert answer.status == 200, answer.body
        return answer.json

    async def refusal(self, viewer: Viewer, view: str, call: str, /, **body: Any) -> Answer:
        answer = await viewer.send("POST", f"/ui/call/{view}/{call}", body)
        assert answer.status >= 400, answer.body
        return answer

    async def document(self, viewer: Viewer, path: str) -> Object:
        """The first document of a stream."""
        async with viewer.stream(f"/ui/stream/{path}") as answer:
            [(event, document), *_] = await answer.until_event(1)
            assert event == "snapshot"
            found: Object = document
            return found

    async def grant(self, user: str, verbs: Iterable[str], resource: str, namespace: str = "") -> None:
        """`resource` is RESOURCE or RESOURCE.GROUP."""
        plural, _, group = resource.partition(".")
        name = f"{user}-{'-'.join(verbs)}-{plural}"
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        rules = [{"apiGroups": [group], "resources": [plural], "verbs": list(verbs)}]
        await self.cluster.create({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules})
        await self.cluster.create(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
                "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
            }
        )


@asynccontextmanager
async def view_stage(*objects: Object, limits: PageLimits | None = None) -> AsyncIterator[ViewStage]:
    async with LocalCluster(objects=objects) as cluster:
        made = ViewStage(cluster, limits)
        try:
            yield made
        finally:
            await made.page.close()
