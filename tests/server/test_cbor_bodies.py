"""Bodies in CBOR, which clients of Kubernetes send that prefer it; answers come in JSON."""

from __future__ import annotations

import pytest

from tests.api.test_cbor import encode

MAPS = "/api/v1/namespaces/default/configmaps"
CBOR = "application/cbor"
APPLY_CBOR = "application/apply-patch+cbor"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "ä"}}


def test_an_object_is_created_and_replaced(api):
    code, made = api.ask("POST", MAPS, encode(MAP), content_type=CBOR)
    assert (code, made["data"]) == (201, {"a": "ä"})
    code, made = api.ask("PUT", f"{MAPS}/m", encode({**MAP, "data": {"b": "c"}}), content_type=CBOR)
    assert (code, made["data"]) == (200, {"b": "c"})


def test_an_object_is_applied(api):
    path = f"{MAPS}/m?fieldManager=clusterrole-aggregation-controller&force=true"
    assert api.ask("PATCH", path, encode(MAP), content_type=APPLY_CBOR)[0] == 201
    code, applied = api.ask("PATCH", path, encode({**MAP, "data": {"b": "c"}}), content_type=APPLY_CBOR)
    assert (code, applied["data"]) == (200, {"b": "c"})


def test_responses_are_never_cbor(api):
    assert api.refusal("GET", MAPS, accept=CBOR)[0] == 406
    assert api.get(MAPS, accept="application/json;q=0.9,application/cbor;q=1")["kind"] == "ConfigMapList"


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"\x01", b"{}", encode(MAP)[:-1], encode(MAP) + b"\0", b"\x9f" * 100_000]
)
def test_bodies_that_are_not_cbor_objects_are_refused(api, body):
    for method, path, media in (("POST", MAPS, CBOR), ("PATCH", f"{MAPS}/m?fieldManager=f", APPLY_CBOR)):
        code, document = api.ask(method, path, body, content_type=media)
        assert (code, document["reason"]) == (400, "BadRequest"), document
