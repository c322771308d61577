"""The messages of documents: numbers as gnostic has them, checked on what clients read."""

import struct

import msgspec
import pytest

from dray.server.openapi.messages import UnknownMember, version2, version3
from tests.server.openapi.reading import fields, named

V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
POD, PODS = "io.k8s.api.core.v1.Pod", "/api/v1/namespaces/{namespace}/pods"


def extensions(message, number):
    pairs = [fields(each) for each in fields(message)[number]]
    return {pair[1][0].decode(): msgspec.json.decode(fields(pair[2][0])[2][0]) for pair in pairs}


def test_version_2(api):
    shown = api.get("/openapi/v2")
    document = fields(api.raw("GET", "/openapi/v2", accept=V2).body)
    assert document[1] == [b"2.0"]
    assert fields(document[2][0])[1] == [b"dray"]
    paths = named(document[8][0], 2)
    definitions = named(document[9][0], 1)
    assert (paths.keys(), definitions.keys()) == (shown["paths"].keys(), shown["definitions"].keys())

    pod = definitions[POD]
    assert fields(fields(pod)[22][0])[1] == [b"object"]
    assert fields(pod)[4][0].decode() == shown["definitions"][POD]["description"]
    assert fields(named(fields(pod)[25][0], 1)["spec"])[1] == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
    kinds = extensions(pod, 31)["x-kubernetes-group-version-kind"]
    assert kinds == [{"group": "", "kind": "Pod", "version": "v1"}]
    containers = named(fields(definitions["io.k8s.api.core.v1.PodSpec"])[25][0], 1)["containers"]
    assert extensions(containers, 31)["x-kubernetes-patch-merge-key"] == "name"
    assert fields(fields(fields(containers)[23][0])[1][0])[1] == [b"#/definitions/io.k8s.api.core.v1.Container"]

    post = fields(fields(paths[PODS])[4][0])
    assert post[5] == [b"createCoreV1NamespacedPod"]
    assert extensions(fields(paths[PODS])[4][0], 13)["x-kubernetes-action"] == "post"
    body = [fields(fields(each)[1][0]) for each in post[8]][-1]
    assert fields(fields(body[1][0])[5][0])[1] == [b"#/definitions/io.k8s.api.core.v1.Pod"]
    namespace = fields(fields(fields(fields(fields(paths[PODS])[9][0])[1][0])[2][0])[4][0])
    assert (namespace[1], namespace[2], namespace[4], namespace[5]) == ([1], [b"path"], [b"namespace"], [b"string"])
    created = fields(fields(named(post[9][0], 1)["201"])[1][0])
    assert fields(fields(created[2][0])[1][0])[1] == [b"#/definitions/io.k8s.api.core.v1.Pod"]


def test_version_3(api):
    shown = api.get("/openapi/v3/api/v1")
    document = fields(api.raw("GET", "/openapi/v3/api/v1", accept=V3).body)
    schemas = named(fields(document[5][0])[1][0], 1)
    paths = named(document[4][0], 1)
    assert (paths.keys(), schemas.keys()) == (shown["paths"].keys(), shown["components"]["schemas"].keys())

    pod = fields(schemas[POD])[1][0]
    assert fields(pod)[25] == [b"object"]
    spec = fields(fields(named(fields(pod)[31][0], 1)["spec"])[1][0])
    reference = fields(fields(spec[26][0])[2][0])
    assert reference[1] == [b"#/components/schemas/io.k8s.api.core.v1.PodSpec"]
    # A default that is an object is only there.
    assert spec[33] == [b""]
    port = fields(fields(schemas["io.k8s.api.core.v1.ContainerPort"])[1][0])
    assert fields(fields(fields(named(port[31][0], 1)["protocol"])[1][0])[33][0])[3] == [b"TCP"]
    patch = fields(fields(paths[f"{PODS}/{{name}}"])[10][0])
    assert patch[5] == [b"patchCoreV1NamespacedPod"]
    parameters = [fields(fields(each)[1][0]) for each in patch[6]]
    assert {b"dryRun", b"fieldValidation"} <= {each[1][0] for each in parameters}
    content = fields(fields(patch[7][0])[1][0])[2][0]
    assert "application/strategic-merge-patch+json" in named(content, 1)


def test_numbers_and_alternatives():
    schema = {
        "minimum": 1.5,
        "maximum": 0,
        "maxLength": 300,
        "nullable": True,
        "additionalProperties": False,
        "enum": ["a", 1, None],
        "default": 3,
        "anyOf": [{"type": "string"}],
        "not": {"type": "integer"},
    }
    found = fields(version3().write("Schema", schema))
    assert (found[13], 11 in found, found[15], found[1]) == ([struct.pack("<d", 1.5)], False, [300], [1])
    assert fields(found[32][0]) == {2: [0]}
    assert [msgspec.json.decode(fields(each)[2][0]) for each in found[24]] == ["a", 1, None]
    assert fields(found[33][0])[1] == [struct.pack("<d", 3)]
    assert fields(fields(found[28][0])[1][0])[25] == [b"string"]
    assert fields(found[29][0])[25] == [b"integer"]


def test_what_has_no_message_is_an_error():
    with pytest.raises(UnknownMember, match="oneOf"):
        version2().write("Schema", {"oneOf": []})
