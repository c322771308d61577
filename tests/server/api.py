"""A server to ask in a test: requests go in as over HTTP, answers come back as documents."""

import asyncio
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

import msgspec

from dray.api import schema, wire_types
from dray.api.protobuf import envelope
from dray.api.protobuf.wire import read_field
from dray.server import paths
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


PROTOBUF = "application/vnd.kubernetes.protobuf"


class Api:
    """Synchronous on the outside: each call runs the loop until it is answered."""

    def __init__(self, runner, context, provided=()):
        self.runner = runner
        self.context = context
        self.server = ApiServer(context, provided=provided)
        self.server.custom_kinds.cleanup.pause = 0.01
        self.warnings, self.annotations = [], {}
        self.user = ADMIN
        runner.run(self.server.start())

    def raw(self, method, path, body=b"", **headers):
        parts = urlsplit(path)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(method, unquote(parts.path), parts.query, named, body, self.user)
        answer = self.runner.run(self.server.handle(request))
        self.warnings, self.annotations = request.warnings, request.annotations
        return answer

    def ask(self, method, path, body=None, **headers):
        """(code, document) of an answer."""
        if body is not None:
            headers.setdefault("content_type", "application/json")
            body = body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = self.raw(method, path, body or b"", **headers)
        assert isinstance(answer, Response), "this is a stream"
        return answer.code, document_of(answer)

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
        return self.runner.run(_collect(stream, events))

    def wait(self, seconds=0.05):
        self.runner.run(asyncio.sleep(seconds))


class ProtobufApi(Api):
    """Speaks only protobuf, as Go clients do, wherever a test does not ask for something else.

    Bodies that protobuf cannot carry (members of a wrong type, unknown members, patches) go as they are.
    """

    def raw(self, method, path, body=b"", **headers):
        headers.setdefault("accept", PROTOBUF if self._resource(path) is None else f"{PROTOBUF},application/json")
        if headers.get("content_type") == "application/json" and (encoded := self._encoded(method, path, body)):
            body, headers["content_type"] = encoded, PROTOBUF
        answer = super().raw(method, path, body, **headers)
        if headers["accept"] == PROTOBUF and isinstance(answer, Response) and paths.parse(urlsplit(path).path):
            assert answer.content_type == PROTOBUF or answer.content_type.startswith("text/plain")
        return answer

    def _resource(self, path):
        """The custom resource that a path is about."""
        found = paths.parse(urlsplit(path).path)
        resource = found and self.context.registry.find(found.group, found.version, found.plural)
        return resource if resource is not None and not resource.strategic else None

    def _encoded(self, method, path, body):
        try:
            document = msgspec.json.decode(body)
            if msgspec.json.encode(document) != body:
                return None
            document = {**self._identity(method, path), **document}
            encoded = envelope.encode(document)
            type_name = wire_types.type_of(document["apiVersion"], document["kind"])
            same = schema.read(envelope.decode(encoded), type_name) == schema.read(document, type_name)
        except (TypeError, ValueError, KeyError, RecursionError):
            return None
        return encoded if same else None

    def _identity(self, method, path):
        if method == "DELETE":
            return {"apiVersion": "v1", "kind": "DeleteOptions"}
        found = paths.parse(urlsplit(path).path)
        resource = found and self.context.registry.find(found.group, found.version, found.plural)
        if resource is None or found.subresource not in ("", "status"):
            return {}
        return {"apiVersion": resource.api_version, "kind": resource.kind}


def document_of(answer):
    """The document of an answer, whatever it is written in, as JSON would have it."""
    if answer.content_type != PROTOBUF:
        return msgspec.json.decode(answer.whole())
    return as_json(answer.whole())


def as_json(data):
    document = envelope.decode(data)
    type_name = wire_types.type_of(document["apiVersion"], document["kind"])
    canonical, problems = schema.read(document, type_name)
    assert not problems
    found = schema.write(canonical, type_name)
    # Protobuf does not tell an empty list from none.
    return {**found, "items": found["items"] or []} if "items" in found else found


async def _collect(stream, count):
    found = []
    async with asyncio.timeout(30):
        async for chunk in stream.chunks:
            found += (
                _frames(chunk) if "protobuf" in stream.content_type else map(msgspec.json.decode, chunk.splitlines())
            )
            if count is not None and len(found) >= count:
                break
    await stream.chunks.aclose()
    return found[:count]


def _frames(chunk):
    """The events in a piece of a watch: each has its length before it."""
    while chunk:
        size = int.from_bytes(chunk[:4], "big")
        event = decode_members(chunk[4 : 4 + size])
        yield {"type": event[1].decode(), "object": as_json(decode_members(event[2])[1])}
        chunk = chunk[4 + size :]


def decode_members(data):
    """The fields of a message that holds nothing but bytes."""
    found, at = {}, 0
    while at < len(data):
        number, _, value, at = read_field(data, at)
        found[number] = value
    return found


@contextmanager
def serving(*, client=Api, **options):
    with asyncio.Runner(loop_factory=options.pop("loop_factory", None)) as runner:
        store = options.pop("store", None) or MemoryStore()
        provided = options.pop("provided", ())
        api = client(runner, Context(store, **options), provided)
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
