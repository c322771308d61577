from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from dray.yaml.documents import parse
from tests.server.api import APPLY, MAPS, MERGE, PODS

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
YAML = "application/yaml"


def post(api: Any, path: str, body: str, query: str = "") -> Any:
    """(code, document) of the answer."""
    return api.ask("POST", path + query, body.encode(), content_type=YAML)


def config_map(data: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m, annotations: {data}}}\n"


@pytest.mark.parametrize("text", ["12:30:45", "2024-01-01", "1e400", "0x", "v1", "1.2.3"])
def test_text_stays_text(api, text):
    code, made = post(api, MAPS, config_map(f"{{a: {text}}}"))
    assert (code, made["metadata"]["annotations"]) == (201, {"a": text})


@pytest.mark.parametrize("scalar", ["1e3", "0o10", "010", "y", "on", "OFF", "~", "5", "1_0"])
def test_what_is_no_text_is_none_for_the_server_and_for_files(api, scalar):
    body = config_map(f"{{a: {scalar}}}")
    code, _ = post(api, MAPS, body, "?dryRun=All")
    [document] = parse(body.encode())
    value = document.value["metadata"]["annotations"]["a"]
    assert not isinstance(value, str)
    assert code == (201 if value is None else 400)


@pytest.mark.parametrize(("scalar", "seconds"), [("1e3", 1000), ("0o10", 8), ("010", 8), ("1_0", 10), ("0x1f", 31)])
def test_numbers_as_kubernetes_reads_them(api, scalar, seconds):
    pod = f"{{name: p}}\nspec: {{containers: [{{name: c, image: i}}], terminationGracePeriodSeconds: {scalar}}}\n"
    code, made = post(api, PODS, f"apiVersion: v1\nkind: Pod\nmetadata: {pod}", "?dryRun=All")
    assert (code, made["spec"]["terminationGracePeriodSeconds"]) == (201, seconds)


def test_base_60_is_no_number(api):
    pod = "{name: p}\nspec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 12:30:45}\n"
    assert post(api, PODS, f"apiVersion: v1\nkind: Pod\nmetadata: {pod}")[0] == 400


def test_duplicate_keys_are_refused_or_told_of_as_the_client_asked(api):
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: one\n  a: two\n"
    code, refused = post(api, MAPS, body, "?fieldValidation=Strict")
    assert code == 400
    assert 'line 6: key "a" already set in map' in refused["message"]
    code, made = post(api, MAPS, body)
    assert (code, made["data"]) == (201, {"a": "two"})
    assert api.warnings == ['line 6: key "a" already set in map']
    strictly = f"{MAPS}/m?fieldManager=x&fieldValidation=Strict"
    assert api.ask("PATCH", strictly, body.encode(), content_type=APPLY)[0] == 400


def test_duplicate_members_of_an_applied_json_document(api):
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"1","a":"2"}}'
    strictly = f"{MAPS}/m?fieldManager=x&fieldValidation=Strict"
    assert api.ask("PATCH", strictly, body, content_type=APPLY)[0] == 400
    assert api.patch(f"{MAPS}/m?fieldManager=x", body, APPLY)["data"] == {"a": "2"}
    assert api.warnings == ['duplicate field "data.a"']
    assert api.patch(f"{MAPS}/m?fieldValidation=Ignore", b'{"data":{"a":"3","a":"4"}}', MERGE)["data"] == {"a": "4"}
    assert api.warnings == []
    code, refused = api.ask(
        "PATCH", f"{MAPS}/m?fieldValidation=Strict", b'{"data":{"a":"3","a":"4"}}', content_type=MERGE
    )
    assert (code, refused["reason"]) == (422, "Invalid")
    assert 'duplicate field "data.a"' in refused["message"]


def test_unknown_and_duplicate_members_are_told_in_the_order_of_the_document(api):
    body = b'{"kind":"ConfigMap","apiVersion":"v1","x":1,"metadata":{"name":"m","y":2},"data":{"a":"1","a":"2"},"z":3}'
    told = ['unknown field "x"', 'unknown field "metadata.y"', 'duplicate field "data.a"', 'unknown field "z"']
    code, refused = api.ask("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert code == 400
    assert f"strict decoding error: {', '.join(told)}" in refused["message"]
    assert api.ask("POST", MAPS, body)[0] == 201
    assert api.warnings == told


@pytest.mark.parametrize(
    ("body", "twice"),
    [
        (b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"},"data":{},"data":{},"x":1}', 'field "data"'),
        (b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: m}\ndata: {}\ndata: {}\nx: 1\n", 'line 5: key "data"'),
    ],
)
def test_everything_that_is_wrong_is_told_at_once(api, body, twice):
    media = "application/json" if body.startswith(b"{") else "application/yaml"
    code, refused = api.ask("POST", f"{MAPS}?fieldValidation=Strict", body, content_type=media)
    assert code == 400
    assert twice in refused["message"]
    assert 'unknown field "x"' in refused["message"]


def test_merge_keys_are_followed_and_counted(api):
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: &l {a: one}}\ndata: {<<: *l, b: two}\n"
    assert post(api, MAPS, body)[1]["data"] == {"a": "one", "b": "two"}
    levels = "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 31))
    code, refused = post(api, REVIEWS, f"a0: &a0 {{k: v}}\n{levels}")
    assert code == 400
    assert "excessive aliasing" in refused["message"]


@pytest.mark.parametrize(
    "value",
    ["1" + ":59" * 160_000, "9" * 480_000, "0." + "9" * 480_000, "0x" + "f" * 480_000],
    ids=["base 60", "integer", "float", "hexadecimal"],
)
def test_a_long_scalar_is_read_in_time(api, value):
    started = process_time()
    assert post(api, REVIEWS, f"spec: {{x: {value}}}\n")[0] == 422
    assert process_time() - started < 5


def test_aliases_do_not_share_what_the_server_changes(api):
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: &l {a: b}, annotations: *l}\n"
    code, made = post(api, MAPS, body)
    metadata = made["metadata"]
    assert code == 201
    assert metadata["labels"] == metadata["annotations"] == {"a": "b"}
