"""No stored object is larger than etcd would take it, however it grew; what is there can always shrink and go."""

import pytest

from dray.server import documents
from tests.server.api import APPLY, MERGE, PODS, STRATEGIC, pod
from tests.server.test_custom_kinds import DEFINITIONS, WIDGETS, definition

TOO_LARGE = (413, "RequestEntityTooLarge")
JSON_PATCH = "application/json-patch+json"
MOST = 1536 * 1024


def text(size):
    return "x" * size


def with_env(size):
    return pod(containers=[{"name": "main", "image": "x", "env": [{"name": "A", "value": text(size)}]}])


def refusal(answer):
    code, document = answer
    return code, document.get("reason")


@pytest.fixture
def widgets(api):
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    api.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema}))
    return api


def widget(size, **metadata):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", **metadata},
        "spec": {"a": text(size), "size": 1},
    }


def test_what_is_created(api):
    assert refusal(api.ask("POST", PODS, with_env(MOST))) == TOO_LARGE
    assert refusal(api.ask("POST", f"{PODS}?dryRun=All", with_env(MOST))) == TOO_LARGE
    assert api.ask("GET", f"{PODS}/p")[0] == 404
    assert api.ask("POST", PODS, with_env(MOST - 10_000))[0] == 201


def test_the_message_names_limit_and_size(api):
    document = api.ask("POST", PODS, with_env(MOST))[1]
    assert document["message"].startswith("Request entity too large: limit is 1572864: the object would take 15")


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_what_a_custom_object_grows_to(widgets, subresource):
    widgets.create(WIDGETS, widget(700_000))
    part = {"status": {"b": text(900_000)}} if subresource else {"spec": {"a": text(MOST)}}
    path = f"{WIDGETS}/w{subresource}"
    assert refusal(widgets.ask("PATCH", path, part, content_type=MERGE)) == TOO_LARGE
    whole = {**widget(700_000), **part}
    assert refusal(widgets.ask("PATCH", f"{path}?fieldManager=f&force=true", whole, content_type=APPLY)) == TOO_LARGE
    current = widgets.get(f"{WIDGETS}/w")
    assert refusal(widgets.ask("PUT", path, {**current, **part})) == TOO_LARGE
    assert widgets.get(f"{WIDGETS}/w") == current


def test_what_patches_of_a_built_in_kind_come_to(api):
    api.create(PODS, with_env(1_000_000))
    more = {"status": {"message": text(600_000)}}
    for kind in (MERGE, STRATEGIC):
        assert refusal(api.ask("PATCH", f"{PODS}/p/status", more, content_type=kind)) == TOO_LARGE
    add = [{"op": "add", "path": "/status/message", "value": text(600_000)}]
    assert refusal(api.ask("PATCH", f"{PODS}/p/status", add, content_type=JSON_PATCH)) == TOO_LARGE


def test_what_the_record_of_owners_adds(api):
    """Forty managers with forty thousand bytes of names each: the fields are few, the record of them is long."""
    api.create(PODS, pod())
    codes = []
    for number in range(60):
        conditions = [{"type": f"{text(40_000)}-{number}", "status": "True"}]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": conditions}}
        codes.append(api.ask("PATCH", f"{PODS}/p/status?fieldManager=m{number}", body, content_type=APPLY)[0])
    assert set(codes) == {200, 413}
    stored = api.context.store.get("//pods/default/p")
    assert len(stored.value) <= MOST


def test_the_largest_objects_can_be_deleted_in_every_way(widgets):
    held = {"finalizers": ["example.com/hold"]}
    widgets.create(WIDGETS, widget(1_000_000, **held))
    room = MOST - len(widgets.context.store.get("/example.com/widgets/default/w").value)
    widgets.patch(f"{WIDGETS}/w", {"spec": {"a": text(1_000_000 + room)}})
    assert len(widgets.context.store.get("/example.com/widgets/default/w").value) >= MOST - 10
    widgets.delete(f"{WIDGETS}/w?propagationPolicy=Foreground")
    assert widgets.get(f"{WIDGETS}/w")["metadata"]["deletionTimestamp"]
    widgets.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    assert widgets.ask("GET", f"{WIDGETS}/w")[0] == 404


def test_what_was_stored_larger_may_shrink_and_go(widgets, monkeypatch):
    widgets.create(WIDGETS, widget(10_000))
    monkeypatch.setattr(documents, "MAX_BYTES", 5_000)
    assert refusal(widgets.ask("PATCH", f"{WIDGETS}/w", {"spec": {"b": "more"}}, content_type=MERGE)) == TOO_LARGE
    widgets.patch(f"{WIDGETS}/w", {"spec": {"a": text(9_000)}})
    widgets.delete(f"{WIDGETS}/w")
    assert widgets.ask("GET", f"{WIDGETS}/w")[0] == 404
