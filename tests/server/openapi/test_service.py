"""OpenAPI as clients ask for it: forms, hashes, caching, and what comes and goes with custom kinds."""

import gzip

import msgspec
import pytest

from tests.server.custom.widgets import definition
from tests.server.openapi.reading import fields, named

PROTOBUF = "application/com.github.proto-openapi.spec.v{}.v1.0+protobuf"
OLD_PROTOBUF = "application/com.github.proto-openapi.spec.v{}@v1.0+protobuf"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLACE = "apis/example.com/v1"


def address(api, place="api/v1"):
    return api.get("/openapi/v3")["paths"][place]["serverRelativeURL"]


def test_the_index_leads_to_every_document(api):
    paths = api.get("/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/authorization.k8s.io/v1", "apis/apiextensions.k8s.io/v1"} <= paths.keys()
    for place, entry in paths.items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{place}?hash=")
        answer = api.raw("GET", entry["serverRelativeURL"])
        assert (answer.code, answer.headers["Cache-Control"]) == (200, "public, immutable")


def test_the_index_is_json_whoever_asks(api):
    for accept in ("application/yaml", PROTOBUF.format(3), "application/vnd.kubernetes.protobuf"):
        answer = api.raw("GET", "/openapi/v3", accept=accept, accept_encoding="gzip")
        assert (answer.code, answer.content_type) == (200, "application/json")
        assert "paths" in msgspec.json.decode(gzip.decompress(answer.body))


def test_a_hash_that_is_old_leads_to_the_new_one(api):
    answer = api.raw("GET", "/openapi/v3/api/v1?hash=ABC")
    assert (answer.code, answer.headers["Location"]) == (301, address(api))
    # Without a hash nothing is promised.
    assert "Cache-Control" not in api.raw("GET", "/openapi/v3/api/v1").headers


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"])
def test_what_a_client_has_is_not_sent_again(api, path):
    first = api.raw("GET", path)
    etag = first.headers["Etag"]
    assert etag.strip('"').isalnum()
    for known in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        again = api.raw("GET", path, if_none_match=known)
        assert (again.code, again.body, again.headers["Etag"]) == (304, b"", etag)
    assert api.raw("GET", path, if_none_match='"other"').code == 200


@pytest.mark.parametrize(
    ("path", "version", "opening"),
    [("/openapi/v2", 2, b"\x0a\x032.0"), ("/openapi/v3/api/v1", 3, b"\x0a\x053.0.0")],
)
def test_in_protobuf_by_both_of_its_names(api, path, version, opening):
    for name in (PROTOBUF, OLD_PROTOBUF):
        answer = api.raw("GET", path, accept=f"{name.format(version)}, application/json;q=0.5")
        assert (answer.code, answer.content_type) == (200, PROTOBUF.format(version))
        assert answer.body.startswith(opening)
        assert answer.headers["Vary"].startswith("Accept")
        small = api.raw("GET", path, accept=name.format(version), accept_encoding="gzip, deflate")
        assert small.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(small.body) == answer.body
    assert api.raw("GET", path, accept=name.format(5 - version)).code == 406
    assert api.raw("GET", path, accept="application/yaml").code == 406
    assert api.raw("GET", path, accept_encoding="gzip;q=0").content_type == "application/json"


def test_what_is_not_there(api):
    for path in ("/openapi", "/openapi/v1", "/openapi/v3/apis/none/v1", "/openapi/v2/more"):
        assert api.refusal("GET", path)[0] == 404


def test_a_custom_kind_comes_changes_and_goes(api):
    before = api.get("/openapi/v3")["paths"]
    whole = api.raw("GET", "/openapi/v2").headers["Etag"]
    made = api.create(DEFINITIONS, definition())
    assert "com.example.v1.Widget" in api.get("/openapi/v2")["definitions"]
    with_kind = api.get("/openapi/v3")["paths"]
    # No other group is made anew.
    assert {place: entry for place, entry in with_kind.items() if place != PLACE} == before
    assert api.raw("GET", "/openapi/v2", if_none_match=whole).code == 200

    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["description"] = "What is wanted."
    api.put(f"{DEFINITIONS}/widgets.example.com", made)
    changed = address(api, PLACE)
    assert changed != with_kind[PLACE]["serverRelativeURL"]
    schema = api.get(changed)["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["properties"]["spec"]["description"] == "What is wanted."
    v2 = api.get("/openapi/v2")["definitions"]["com.example.v1.Widget"]
    assert v2["properties"]["spec"]["description"] == "What is wanted."

    api.delete(f"{DEFINITIONS}/widgets.example.com")
    api.wait()
    assert api.get("/openapi/v3")["paths"] == before
    assert api.ask("GET", f"/openapi/v3/{PLACE}")[0] == 404
    assert api.raw("GET", "/openapi/v2").headers["Etag"] == whole


def test_a_version_that_is_served_no_more_is_not_shown(api):
    made = definition()
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2", "storage": False})
    made = api.create(DEFINITIONS, made)
    assert {"com.example.v1.Widget", "com.example.v2.Widget"} <= api.get("/openapi/v2")["definitions"].keys()
    made["spec"]["versions"][1]["served"] = False
    api.put(f"{DEFINITIONS}/widgets.example.com", made)
    assert "com.example.v2.Widget" not in api.get("/openapi/v2")["definitions"]
    assert "apis/example.com/v2" not in api.get("/openapi/v3")["paths"]


@pytest.mark.parametrize(
    ("wrap", "deepest"),
    [
        (lambda inner: {"type": "object", "properties": {"a": inner}}, 62),
        (lambda inner: {"type": "array", "items": inner}, 124),
        (lambda inner: {"type": "object", "additionalProperties": inner}, 124),
    ],
)
def test_schemas_of_any_depth_that_is_allowed(api, wrap, deepest):
    inner = {"type": "string"}
    for _ in range(deepest):
        inner = wrap(inner)
    api.create(DEFINITIONS, definition({"type": "object", "properties": {"x": inner}}))
    for path, version in (("/openapi/v2", 2), (f"/openapi/v3/{PLACE}", 3)):
        assert api.raw("GET", path).code == 200
        assert api.raw("GET", path, accept=PROTOBUF.format(version)).code == 200


def test_both_forms_say_the_same_of_a_custom_kind(api):
    api.create(DEFINITIONS, definition())
    document = fields(api.raw("GET", "/openapi/v2", accept=PROTOBUF.format(2)).body)
    kind = fields(named(document[9][0], 1)["com.example.v1.Widget"])
    assert named(kind[25][0], 1).keys() == {"apiVersion", "kind", "metadata", "spec", "status"}
    spec = fields(named(kind[25][0], 1)["spec"])
    assert spec[19] == [b"size"]
    assert fields(named(spec[25][0], 1)["free"])[31]
