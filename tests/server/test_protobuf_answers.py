"""Clients that speak protobuf: answers, refusals, watches, and where JSON is what there is."""

import asyncio
import json

import msgspec
import pytest

from dray.api import catalogue, schema
from dray.api.protobuf import envelope
from dray.server.security.audit_events import Level
from dray.server.security.audit_log import AuditLog
from tests.attacks.fuzz.calls import seeds
from tests.server.api import CLAIMS, MAPS, PODS, PROTOBUF, ProtobufApi, claim, config_map, document_of, named, pod
from tests.server.api import serving as asked
from tests.server.test_application import Exchange, serving
from tests.server.test_custom_kinds import DEFINITIONS, WIDGETS, definition, widget

METADATA, TABLE = (
    f"{PROTOBUF};as={form};g=meta.k8s.io;v=v1,application/json;as={form};g=meta.k8s.io;v=v1"
    for form in ("PartialObjectMetadata", "Table")
)


@pytest.fixture
def proto():
    with asked(client=ProtobufApi) as api:
        yield api


def test_both_forms_are_one_object(api):
    headers = {"content_type": PROTOBUF, "accept": PROTOBUF, "user_agent": "test"}
    created = api.raw("POST", CLAIMS, envelope.encode(claim("c")), **headers)
    assert (created.code, created.content_type) == (201, PROTOBUF)
    assert created.body.startswith(b"k8s\x00")
    assert document_of(created) == api.get(f"{CLAIMS}/c")
    assert document_of(api.raw("GET", CLAIMS, accept=f"{PROTOBUF},application/json")) == api.get(CLAIMS)


def test_old_versions_too(api):
    api.create(CLAIMS, claim("c"), user_agent="test")
    for version in ("v1beta1", "v1beta2"):
        path = f"{CLAIMS.replace('v1', version)}/c"
        answer = api.raw("GET", path, accept=PROTOBUF)
        assert document_of(answer) == api.get(path)


def _without_kinds_within(document):
    """Objects within others say in JSON what they are; messages have no field for it."""
    for item in document.get("items", [document]):
        for template in item.get("spec", {}).get("volumeClaimTemplates", ()):
            del template["apiVersion"], template["kind"]
    return document


def test_every_kind_is_the_same_in_both_forms(api):
    """Objects of every kind, created in protobuf where it can carry them, in every version that is served."""
    headers = {"user_agent": "test", "accept": PROTOBUF}
    for seed in seeds():
        if seed.wire != "any":
            body = envelope.encode(schema.read(seed.document, seed.wire)[0])
            api.raw("POST", seed.collection("default"), body, content_type=PROTOBUF, **headers)
    compared = 0
    for version in catalogue.every_version():
        if "list" not in version.entry.verbs:
            continue
        prefix = f"/apis/{version.api_version}" if version.group else f"/api/{version.version}"
        path = f"{prefix}/{version.plural}"
        listed = _without_kinds_within(api.get(path))
        assert document_of(api.raw("GET", path, accept=PROTOBUF)) == listed, path
        for item in listed["items"]:
            namespace = item["metadata"].get("namespace")
            at = f"{prefix}/namespaces/{namespace}/{version.plural}" if namespace else path
            at = f"{at}/{item['metadata']['name']}"
            assert document_of(api.raw("GET", at, accept=PROTOBUF)) == _without_kinds_within(api.get(at))
        compared += bool(listed["items"])
    assert compared > 25


def test_a_list_goes_in_pages(proto):
    for index in range(5):
        proto.create(MAPS, config_map(f"m{index}"))
    first = proto.get(f"{MAPS}?limit=2")
    assert first["kind"] == "ConfigMapList"
    assert first["metadata"]["remainingItemCount"] == 3
    rest = proto.get(f"{MAPS}?continue={first['metadata']['continue']}")
    assert named(first) + named(rest) == [f"m{index}" for index in range(5)]


def test_a_list_of_many_is_written_by_a_worker(proto):
    for index in range(40):
        proto.create(MAPS, config_map(f"m{index:02}", {"a": "x" * 5000}))
    answer = proto.raw("GET", MAPS)
    assert answer.rest is None
    assert len(document_of(answer)["items"]) == 40


def test_refusals_are_protobuf_too(proto):
    answer = proto.raw("GET", f"{MAPS}/none")
    assert (answer.code, answer.content_type) == (404, PROTOBUF)
    status = document_of(answer)
    assert (status["kind"], status["reason"], status["details"]["name"]) == ("Status", "NotFound", "none")
    answer = proto.raw("POST", CLAIMS, envelope.encode(claim("C C")), content_type=PROTOBUF)
    assert [cause["field"] for cause in document_of(answer)["details"]["causes"]] == ["metadata.name"]


def test_deletion_with_options(proto):
    uid = proto.create(PODS, pod("p"))["metadata"]["uid"]
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}
    answer = proto.raw("DELETE", f"{PODS}/p", envelope.encode(options), content_type=PROTOBUF)
    assert (answer.code, document_of(answer)["reason"]) == (409, "Conflict")
    options["preconditions"]["uid"] = uid
    assert proto.raw("DELETE", f"{PODS}/p", envelope.encode(options), content_type=PROTOBUF).code == 200


def test_metadata_alone(api):
    api.create(MAPS, config_map("m"))
    for path, kind in ((f"{MAPS}/m", "PartialObjectMetadata"), (MAPS, "PartialObjectMetadataList")):
        answer = api.raw("GET", path, accept=METADATA)
        assert answer.content_type == PROTOBUF
        document = document_of(answer)
        assert (document["apiVersion"], document["kind"]) == ("meta.k8s.io/v1", kind)
        assert "data" not in document


def test_tables_stay_json(api):
    api.create(MAPS, config_map("m"))
    answer = api.raw("GET", MAPS, accept=TABLE)
    assert answer.content_type == "application/json"
    assert document_of(answer)["kind"] == "Table"


def test_a_watch_comes_in_frames(proto):
    before = proto.create(MAPS, config_map("m"))["metadata"]["resourceVersion"]
    made = proto.create(MAPS, config_map("n"))
    proto.delete(f"{MAPS}/n")
    stream = proto.raw("GET", f"{MAPS}?watch=1&resourceVersion={before}&allowWatchBookmarks=1&timeoutSeconds=1")
    assert stream.content_type == f"{PROTOBUF};stream=watch"
    events = proto.read(stream)
    assert [event["type"] for event in events] == ["ADDED", "DELETED", "BOOKMARK"]
    assert events[0]["object"] == made
    assert events[2]["object"]["metadata"]["resourceVersion"] == events[1]["object"]["metadata"]["resourceVersion"]


def test_a_watch_ends_in_a_status(proto):
    proto.create(MAPS, config_map("m"))
    proto.runner.run(proto.context.store.compact(proto.context.store.revision))
    (event,) = proto.watch(f"{MAPS}?watch=1&resourceVersion=1", events=1)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_watch_is_closed_with_its_reader(proto):
    stream = proto.raw("GET", f"{MAPS}?watch=1")

    async def leave():
        reading = asyncio.ensure_future(anext(stream.chunks))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await stream.chunks.aclose()

    proto.runner.run(leave())
    assert proto.read(stream) == []


def test_what_several_watchers_see_is_written_once(proto, monkeypatch):
    streams = [proto.raw("GET", f"{MAPS}?watch=1") for _ in range(3)]
    proto.create(MAPS, config_map("seen-by-three"))
    encoded = []
    monkeypatch.setattr(envelope, "encode_event", lambda *event: encoded.append(event) or b"frame")
    for stream in streams:
        assert proto.runner.run(anext(stream.chunks)) == b"frame"
        proto.runner.run(stream.chunks.aclose())
    assert len(encoded) == 1


def test_yaml_is_no_stream(api):
    assert api.raw("GET", f"{MAPS}?watch=1", accept="application/yaml").code == 406


class TestCustomKinds:
    @pytest.fixture
    def widgets(self, proto):
        proto.create(DEFINITIONS, definition())
        proto.create(WIDGETS, widget())
        return proto

    def test_are_json(self, widgets):
        answer = widgets.raw("GET", WIDGETS, accept=f"{PROTOBUF},application/json")
        assert answer.content_type == "application/json"
        assert document_of(answer)["kind"] == "WidgetList"
        stream = widgets.raw("GET", f"{WIDGETS}?watch=1", accept=f"{PROTOBUF},application/json")
        assert stream.content_type == "application/json"

    def test_are_nothing_else(self, widgets):
        answer = widgets.raw("GET", WIDGETS, accept=PROTOBUF)
        assert (answer.code, document_of(answer)["reason"]) == (406, "NotAcceptable")
        body = msgspec.json.encode(widget("v"))
        assert widgets.raw("POST", WIDGETS, body, accept=PROTOBUF).code == 406
        assert named(widgets.get(WIDGETS)) == ["w"]

    def test_have_metadata(self, widgets):
        answer = widgets.raw("GET", f"{WIDGETS}/w", accept=METADATA)
        assert document_of(answer)["metadata"]["name"] == "w"
        assert answer.content_type == PROTOBUF

    def test_metadata_is_watched_with_bookmarks(self, widgets):
        query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
        events = widgets.watch(f"{WIDGETS}?{query}", events=2, accept=METADATA)
        assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
        assert {event["object"]["kind"] for event in events} == {"PartialObjectMetadata"}

    def test_have_a_scale(self, widgets):
        answer = widgets.raw("GET", f"{WIDGETS}/w/scale", accept=f"{PROTOBUF},application/json")
        assert (answer.content_type, document_of(answer)["kind"]) == (PROTOBUF, "Scale")

    @pytest.mark.parametrize(
        ("wrap", "deepest"),
        [
            (lambda inner: {"type": "object", "properties": {"a": inner}}, 62),
            (lambda inner: {"type": "array", "items": inner}, 124),
            (lambda inner: {"type": "object", "additionalProperties": inner}, 124),
        ],
    )
    def test_have_schemas_of_any_depth_that_is_allowed(self, api, wrap, deepest):
        for depth, expected in ((deepest, 201), (deepest + 1, 422)):
            inner = {"type": "string"}
            for _ in range(depth):
                inner = wrap(inner)
            schema = {"openAPIV3Schema": {"type": "object", "properties": {"x": inner}}}
            kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
            body = {**kind, **definition(schema=schema, additionalPrinterColumns=[], selectableFields=[])}
            answer = api.raw(
                "POST", f"{DEFINITIONS}?dryRun=All", envelope.encode(body), content_type=PROTOBUF, accept=PROTOBUF
            )
            assert (answer.code, answer.content_type) == (expected, PROTOBUF)

    def test_are_deleted_with_options(self, widgets):
        options = {"apiVersion": "example.com/v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        answer = widgets.raw("DELETE", f"{WIDGETS}/w", envelope.encode(options), content_type=PROTOBUF)
        assert (answer.code, document_of(answer)["status"]) == (200, "Success")

    def test_are_not_read_from_protobuf(self, widgets):
        body = envelope.encode(claim("c")).replace(b"ResourceClaim", b"ResourceClaix")
        answer = widgets.raw("POST", WIDGETS, body, content_type=PROTOBUF, accept="application/json")
        assert answer.code == 400
        assert "no kind" in document_of(answer)["message"]


def test_discovery(api):
    for path, kind in (
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/batch", "APIGroup"),
        ("/apis/batch/v1", "APIResourceList"),
    ):
        answer = api.raw("GET", path, accept=PROTOBUF)
        assert answer.content_type == PROTOBUF
        document = document_of(answer)
        assert document == {"apiVersion": "v1", **api.get(path)}
        assert document["kind"] == kind
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = api.raw("GET", "/apis", accept=f"{aggregated},{PROTOBUF}")
    assert answer.content_type == aggregated
    for path in ("/version", "/openapi/v3"):
        assert api.raw("GET", path, accept=PROTOBUF).content_type == "application/json"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected prefix"),
        (b"{}", "expected prefix"),
        (b"k8s\x00\xff", "cut off"),
        (envelope.encode(claim("c"))[:-20], "unexpected end"),
        (envelope.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {}}), "cannot be handled as"),
    ],
)
def test_bodies_that_are_none(api, body, message):
    code, status = api.ask("POST", CLAIMS, body, content_type=PROTOBUF)
    assert code == 400
    assert message in status["message"]


def test_over_http():
    async def story(app):
        body = envelope.encode({"apiVersion": "v1", "kind": "ConfigMap", **config_map("m")})
        headers = {"content_type": PROTOBUF, "accept": PROTOBUF}
        created = await Exchange(app, "POST", MAPS, body, **headers).run()
        listed = await Exchange(app, "GET", MAPS, accept=PROTOBUF).run()
        large = await Exchange(app, "POST", MAPS, body + b"\0" * (3 << 20), **headers).run()
        watch = Exchange(app, "GET", MAPS, query="watch=1", accept=PROTOBUF)
        watching = asyncio.ensure_future(watch.run())
        await watch.started.wait()
        watch.left.set()
        await watching
        return created, listed, large, watch

    created, listed, large, watch = serving(story)
    assert dict(watch.headers)["content-type"] == f"{PROTOBUF};stream=watch"
    for done, code, kind in ((created, 201, "ConfigMap"), (listed, 200, "ConfigMapList"), (large, 413, "Status")):
        assert done.code == code
        assert dict(done.headers)["content-type"] == PROTOBUF
        assert envelope.decode(done.body)["kind"] == kind


def test_the_audit_log_reads_it(tmp_path):
    log = AuditLog(tmp_path / "audit.log", level=Level.REQUEST)

    async def story(app):
        await Exchange(app, "POST", CLAIMS, envelope.encode(claim("c")), content_type=PROTOBUF).run()
        await Exchange(app, "POST", CLAIMS, b"k8s\x00\xff", content_type=PROTOBUF).run()

    serving(story, audit=log)
    log.close()
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [event["responseStatus"]["code"] for event in events] == [201, 400]
    assert events[0]["requestObject"]["spec"] == claim("c")["spec"]
