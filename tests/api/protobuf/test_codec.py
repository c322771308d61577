"""Documents and messages of every kind: the way there and back, and the same bytes as the protobuf runtime's."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import schema, wire_types
from dray.api.protobuf import encoder, envelope
from dray.api.protobuf.decoder import decode_message
from dray.api.protobuf.encoder import encode_message
from dray.api.protobuf.layout import layout

from . import independent, making

RECORDED = [json.loads(line) for line in Path(__file__).with_name("kubectl.jsonl").read_text().splitlines()]
KINDS = making.kinds()


def check(document: dict[str, Any]) -> None:
    type_name = wire_types.type_of(document["apiVersion"], document["kind"])
    assert type_name is not None
    data = encode_message(document, type_name)
    assert envelope.decode(envelope.encode(document)) == document
    assert data == independent.serialize(document, type_name)
    assert independent.parse(data, type_name).SerializeToString(deterministic=True) == data


def test_there_are_all_kinds():
    assert len(KINDS) > 260
    assert {("apps/v1", "Deployment"), ("v1", "PodList"), ("apiregistration.k8s.io/v1", "APIService")} <= set(KINDS)


def test_every_kind_there_and_back_and_as_the_runtime_has_it():
    for api_version, kind in KINDS:
        for seed in range(2):
            check(making.document(Random(f"{api_version} {kind} {seed}"), api_version, kind))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), st.integers(0, 2**64))
def test_any_document_there_and_back(kind: tuple[str, str], seed: int) -> None:
    check(making.document(Random(seed), *kind))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), st.integers(0, 2**64))
def test_json_and_protobuf_are_the_same_object(kind: tuple[str, str], seed: int) -> None:
    """However an object arrives, what is read of it is the same."""
    document = making.document(Random(seed), *kind)
    type_name = wire_types.type_of(*kind)
    assert type_name is not None
    read = schema.read(document, type_name)
    assert schema.read(envelope.decode(envelope.encode(document)), type_name) == read
    canonical = schema.write(read[0], type_name)
    decoded = envelope.decode(envelope.encode(canonical))
    assert schema.write(schema.read(decoded, type_name)[0], type_name) == canonical


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in RECORDED])
def test_what_kubectl_sends(case: dict[str, Any]) -> None:
    found = envelope.decode(base64.b64decode(case["body"]))
    type_name = wire_types.type_of(found["apiVersion"], found["kind"])
    assert type_name is not None
    assert schema.read(found, type_name) == schema.read(case["expect"], type_name)


@pytest.mark.parametrize(
    ("type_name", "document", "expected"),
    [
        ("core_v1.Secret", {"data": {"a": "AA=="}, "type": ""}, "12 06 0a0161 120100 1a 00"),
        ("core_v1.ServicePort", {"port": 80, "targetPort": "http"}, "18 50 22 0a 0801 1000 1a04 68747470"),
        ("core_v1.ServicePort", {"targetPort": -1}, "22 0f 0800 10 ffffffffffffffffff01 1a00"),
        ("core_v1.PodSpec", {"priority": 0, "containers": []}, "c801 00"),
        ("core_v1.Volume", {"name": "v", "emptyDir": {}}, "0a 01 76 12 02 1200"),
        ("meta_v1.ObjectMeta", {"creationTimestamp": "1970-01-01T00:00:01Z", "uid": None}, "42 04 0801 1000"),
        ("meta_v1.ObjectMeta", {"labels": {"b": "", "a": "1"}}, "5a 06 0a0161 120131 5a 05 0a0162 1200"),
        ("apiextensions_v1.JSONSchemaProps", {"additionalProperties": False}, "f201 02 0800"),
        ("apiextensions_v1.JSONSchemaProps", {"additionalProperties": {}}, "f201 04 0801 1200"),
        ("apiextensions_v1.JSONSchemaProps", {"maximum": 0.0}, "49" + "00" * 8),
        ("apiextensions_v1.JSONSchemaProps", {"enum": [None, "a"]}, "a20100 a20105 0a03226122"),
        ("authorization_v1.SubjectAccessReviewSpec", {"extra": {"k": ["v"]}}, "2a 08 0a016b 1203 0a0176"),
    ],
)
def test_bytes(type_name: str, document: dict[str, Any], expected: str) -> None:
    assert encode_message(document, type_name).hex() == expected.replace(" ", "")


@pytest.mark.parametrize(
    ("type_name", "data", "expected"),
    [
        # A zero stands where JSON would have it.
        ("core_v1.Secret", "1a00", {}),
        ("core_v1.Container", "0a00", {"name": ""}),
        ("core_v1.PodSpec", "c80100", {"priority": 0}),
        ("meta_v1.ObjectMeta", "4200", {}),
        # The last of a field that comes twice counts, parts of a message are put together.
        ("meta_v1.ObjectMeta", "0a0161 0a0162", {"name": "b"}),
        ("core_v1.Secret", "1a0161 1a00", {}),
        ("core_v1.Pod", "0a030a0161 0a032a0175", {"metadata": {"name": "a", "uid": "u"}}),
        ("core_v1.Volume", "1202 1200 0a0176 1202 1a00", {"name": "v", "emptyDir": {}, "gcePersistentDisk": {}}),
        ("core_v1.ConfigMap", "12060a0161120131 12060a0161120132", {"data": {"a": "2"}}),
        # An entry may leave out what is zero, or its key.
        ("core_v1.ConfigMap", "12030a0161 1200", {"data": {"a": "", "": ""}}),
        ("policy_v1.PodDisruptionBudgetStatus", "12030a0161", {"disruptedPods": {"a": None}}),
        ("core_v1.ResourceQuotaSpec", "0a030a0161 0a050a01621200", {"hard": {"a": "0", "b": "0"}}),
        # Numbers of a list may be packed; wider ones are cut off.
        ("batch_v1.PodFailurePolicyOnExitCodesRequirement", "1a0301ac021805", {"values": [1, 300, 5]}),
        ("core_v1.ContainerPort", "18 ffffffffff7f", {"containerPort": -1}),
        # Fields that nobody knows, groups among them, are dropped.
        ("meta_v1.ObjectMeta", "9a0600 980601 9106" + "00" * 8 + "9506" + "00" * 4 + "0a0161", {"name": "a"}),
        ("meta_v1.ObjectMeta", "9b06 0801 9b06 9c06 120161 9c06 0a0161", {"name": "a"}),
        # Times of JSON have seconds.
        ("meta_v1.ObjectMeta", "4208 0801 1080 94 eb dc 03", {"creationTimestamp": "1970-01-01T00:00:01Z"}),
    ],
)
def test_what_others_may_write(type_name: str, data: str, expected: dict[str, Any]) -> None:
    assert decode_message(bytes.fromhex(data), type_name) == expected


def test_threads_that_write_a_type_first_at_the_same_time_write_its_fields_once():
    meeting = Barrier(2, timeout=10)

    def members():
        meeting.wait()
        return layout("core_v1.NodeSpec")

    write = encoder._fields(members)
    spec = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, [spec, spec]))
    assert write(spec) == encode_message(spec, "core_v1.NodeSpec")
