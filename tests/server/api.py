"""A server to ask in a test: requests go in as over HTTP, answers come back as documents."""

import asyncio
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

import msgspec

from dray.server.api_server import ApiServer
from dray.server.authorization import ADMIN
from dray.server.context import Context
from dray.server.requests import Request, Response
from dray.store.memory import MemoryStore

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
NODES = "/api/v1/nodes"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Api:
    """Synchronous on the outside: each call runs the loop until it is answered."""

    def __init__(self, runner, context):
        self.runner = runner
        self.context = context
        self.server = ApiServer(context)
        self.server.custom_kinds.cleanup.pause = 0.01
        self.warnings = []
        self.user = ADMIN
        runner.run(self.server.start())

    def raw(self, method, path, body=b"", **headers):
        parts = urlsplit(path)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(method, unquote(parts.path), parts.query, named, body, self.user)
        answer = self.runner.run(self.server.handle(request))
        self.warnings = request.warnings
        return answer

    def ask(self, method, path, body=None, **headers):
        """(code, document) of an answer."""
        if body is not None:
            headers.setdefault("content_type", "application/json")
            body = body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = self.raw(method, path, body or b"", **headers)
        assert isinstance(answer, Response), "this is a stream"
        return answer.code, msgspec.json.decode(answer.whole())

    def get(self, path, **headers):
        return self._good("GET", path, None, **headers)

    def create(self, path, body, **headers):
        return self._good("POST", path, body, **headers)

    def put(self, path, body, **headers):
        return self._good("PUT", path, body, **headers)

    def patch(self, path, body, kind=MERGE, **headers):
        return self._good("PATCH", path, body, content_type=kind, **headers)

    def delete(self, path, body=None):
        return self._good("DELETE", path, body)

    def _good(self, method, path, body, **headers):
        code, document = self.ask(method, path, body, **headers)
        assert code in (200, 201), document
        return document

    def refusal(self, method, path, body=None, **headers):
        """(code, reason, causes as fields) of an answer that must be a refusal."""
        code, document = self.ask(method, path, body, **headers)
        assert code >= 400, document
        causes = (document.get("details") or {}).get("causes") or []
        return code, document["reason"], [cause.get("field", cause["reason"]) for cause in causes]

    def watch(self, path, *, events=None, **headers):
        """The events of a watch, until it ends or there are so many of them."""
        return self.read(self.raw("GET", path, **headers), events=events)

    def read(self, stream, *, events=None):
        return self.runner.run(_collect(stream.chunks, events))

    def wait(self, seconds=0.05):
        self.runner.run(asyncio.sleep(seconds))


async def _collect(chunks, count):
    found = []
    async with asyncio.timeout(30):
        async for chunk in chunks:
            found += map(msgspec.json.decode, chunk.splitlines())
            if count is not None and len(found) >= count:
                break
    await chunks.aclose()
    return found[:count]


@contextmanager
def serving(**options):
    with asyncio.Runner() as runner:
        store = options.pop("store", None) or MemoryStore()
        api = Api(runner, Context(store, **options))
        yield api
        runner.run(api.server.close())
        runner.run(store.close())


def claim(name="c", *, count=1, **metadata):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}]}},
    }


def config_map(name="m", data=None, **metadata):
    return {"metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def pod(name="p", **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x"}], **spec}}


def named(document):
    return [item["metadata"]["name"] for item in document["items"]]
