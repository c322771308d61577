"""The same client on both transports."""

import asyncio
from contextlib import aclosing

import pytest

from dray.api import catalogue
from dray.client.api import ApiClient
from dray.client.errors import AlreadyExists, ApiError, Conflict, ConnectionFailed, Garbled, NotFound
from dray.client.interface import DeleteOptions, GroupVersionResource, PatchType, Selection, WriteOptions

from .scripted import Drop, Say, Script, Stream, bookmark, claim, client_of, event, refusal

CLAIMS = catalogue.find("resource.k8s.io/v1", "ResourceClaim")
NODES = GroupVersionResource("", "v1", "nodes")
BASE = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@pytest.fixture(params=["http", "direct"])
def way(request):
    return request.param


def dropped(way):
    """A connection that the server closes without a word; aiohttp by itself tries a second one."""
    return [Drop()] * (2 if way == "http" else 1)


def _is_a_client(client: ApiClient) -> ApiClient:
    return client


# How it is asked for, and the method, path, query and body that are heard.
A = claim("a", 1)
VERBS = [
    (lambda c: c.get(CLAIMS, "a", namespace="default"), "GET", f"{BASE}/a", {}, None),
    (lambda c: c.get(NODES, "n", subresource="status"), "GET", "/api/v1/nodes/n/status", {}, None),
    (
        lambda c: c.list(CLAIMS, selection=Selection("a=b,c!=d", "metadata.name=x"), limit=2, continue_token="t+/="),
        "GET",
        "/apis/resource.k8s.io/v1/resourceclaims",
        {"labelSelector": "a=b,c!=d", "fieldSelector": "metadata.name=x", "limit": "2", "continue": "t+/="},
        None,
    ),
    (lambda c: c.create(CLAIMS, A), "POST", BASE, {}, A),
    (
        lambda c: c.create(CLAIMS, {"x": 1}, namespace="default", name="a", subresource="binding"),
        "POST",
        f"{BASE}/a/binding",
        {},
        {"x": 1},
    ),
    (
        lambda c: c.update(CLAIMS, A, options=WriteOptions("me", "Strict", True)),
        "PUT",
        f"{BASE}/a",
        {"fieldManager": "me", "fieldValidation": "Strict", "dryRun": "All"},
        A,
    ),
    (lambda c: c.update_status(CLAIMS, A), "PUT", f"{BASE}/a/status", {}, A),
    (lambda c: c.delete(CLAIMS, "a", namespace="default"), "DELETE", f"{BASE}/a", {}, None),
    (
        lambda c: c.delete(CLAIMS, "a", namespace="default", options=DeleteOptions("u", "7", 0, "Orphan", True)),
        "DELETE",
        f"{BASE}/a",
        {},
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Orphan",
            "dryRun": ["All"],
        },
    ),
    (
        lambda c: c.delete_collection(NODES, selection=Selection("a=b")),
        "DELETE",
        "/api/v1/nodes",
        {"labelSelector": "a=b"},
        None,
    ),
    (lambda c: c.request("GET", "/version", query={"q": "ü &"}), "GET", "/version", {"q": "ü &"}, None),
]


async def test_verbs(way):
    script = Script(*(Say({"number": number}) for number in range(len(VERBS))))
    async with client_of(way, script) as client:
        for number, (call, method, path, query, body) in enumerate(VERBS):
            assert await call(_is_a_client(client)) == {"number": number}
            heard = script.heard[-1]
            assert (heard.method, heard.path, heard.query) == (method, path, query)
            assert (heard.document if heard.body else None) == body
            assert heard.headers["accept"] == "application/json"
            assert heard.headers.get("content-type") == ("application/json" if body else None)


@pytest.mark.parametrize("patch_type", PatchType)
async def test_patches(way, patch_type):
    script = Script(Say({}))
    async with client_of(way, script) as client:
        await client.patch(CLAIMS, "a", {"x": None}, namespace="default", patch_type=patch_type, subresource="status")
    heard = script.heard[0]
    assert (heard.method, heard.path) == ("PATCH", f"{BASE}/a/status")
    assert (heard.headers["content-type"], heard.document) == (patch_type.value, {"x": None})


async def test_apply(way):
    script = Script(Say({}))
    async with client_of(way, script) as client:
        await client.apply(CLAIMS, claim("a", 1), options=WriteOptions("me", force=True))
    heard = script.heard[0]
    assert (heard.method, heard.path, heard.query) == ("PATCH", f"{BASE}/a", {"fieldManager": "me", "force": "true"})
    assert heard.headers["content-type"] == "application/apply-patch+yaml"


async def test_refusals_are_typed(way):
    causes = [{"field": "spec", "reason": "FieldValueRequired", "message": "must be set"}]
    script = Script(
        Say(refusal(404, "NotFound"), 404),
        Say(refusal(409, "Conflict"), 409),
        Say(refusal(409, "AlreadyExists"), 409),
        Say(refusal(422, "Invalid", causes=causes), 422),
        Say(raw=b"<html>go away</html>", status=403),
        Say(status=302, headers={"location": "/elsewhere"}, raw=b""),
        Say(raw=b"not json"),
        Say(raw=b"[1, 2]"),
    )
    async with client_of(way, script) as client:
        errors = []
        for _ in range(8):
            with pytest.raises((ApiError, Garbled)) as refused:
                await client.get(NODES, "n")
            errors.append(refused.value)
    assert [type(each) for each in errors[:3]] == [NotFound, Conflict, AlreadyExists]
    assert errors[3].is_invalid
    assert errors[3].causes == [("spec", "FieldValueRequired", "must be set")]
    assert (errors[4].status, errors[4].reason, errors[4].message) == (403, "Forbidden", "<html>go away</html>")
    assert errors[5].status == 302
    assert [type(error) for error in errors[6:]] == [Garbled, Garbled]
    assert script.slept == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "a%2fb"])
async def test_names_that_lead_elsewhere_are_not_sent(name):
    script = Script()
    async with client_of("direct", script) as client:
        with pytest.raises(ValueError):
            await client.delete(CLAIMS, name, namespace="default")
        with pytest.raises(ValueError):
            await client.update(CLAIMS, {"metadata": {"name": name}})
    assert script.heard == []


async def test_server_faults_are_retried_with_growing_pauses(way):
    script = Script(*dropped(way), Say({}, 500), Say({}, 503, {"Retry-After": "7"}), Say({}, 502), Say({"ok": True}))
    async with client_of(way, script) as client:
        assert await client.get(NODES, "n") == {"ok": True}
    assert script.slept == [0.1, 0.2, 7.0, 0.8]


async def test_what_is_not_idempotent_is_not_repeated(way):
    script = Script(
        Drop(), Say(raw=b"", status=500), Say({}, 429), Say({}, 429, {"retry-after": "1"}), Say({"ok": True})
    )
    async with client_of(way, script) as client:
        with pytest.raises(ConnectionFailed) as broken:
            await client.create(NODES, {})
        assert broken.value.sent
        with pytest.raises(ApiError, match="500"):
            await client.create(NODES, {})
        with pytest.raises(ApiError) as refused:
            await client.create(NODES, {})
        assert refused.value.is_too_many_requests
        # But here the server promised to have done nothing.
        assert await client.create(NODES, {}) == {"ok": True}
    assert script.slept == [1.0]


async def test_patience_ends(way):
    script = Script(*[Say({}, 503)] * 20)
    async with client_of(way, script) as client:
        with pytest.raises(ApiError) as refused:
            await client.get(NODES, "n")
    assert refused.value.is_server_fault
    assert (len(script.heard), script.slept) == (6, [0.1, 0.2, 0.4, 0.8, 1.6])


async def test_all_pages_make_one_list(way):
    pages = [
        Say(
            {
                "kind": "L",
                "metadata": {"resourceVersion": "5", "continue": "x", "remainingItemCount": 3},
                "items": [1, 2],
            }
        ),
        Say({"kind": "L", "metadata": {"resourceVersion": "5", "continue": "y"}, "items": [3]}),
        Say({"kind": "L", "metadata": {"resourceVersion": "5"}, "items": None}),
    ]
    script = Script(*pages)
    async with client_of(way, script) as client:
        whole = await client.list_all(NODES, limit=2)
    assert whole == {"kind": "L", "metadata": {"resourceVersion": "5"}, "items": [1, 2, 3]}
    assert [heard.query.get("continue") for heard in script.heard] == [None, "x", "y"]


async def test_a_list_whose_pages_expired_is_taken_whole(way):
    script = Script(
        Say({"metadata": {"continue": "x"}, "items": [1]}),
        Say(refusal(410, "Expired"), 410),
        Say({"metadata": {"resourceVersion": "9"}, "items": [1, 2]}),
    )
    async with client_of(way, script) as client:
        assert (await client.list_all(NODES))["items"] == [1, 2]
    assert script.heard[-1].query == {}


async def collect(client, count, **options):
    seen = []
    async with aclosing(client.watch(CLAIMS, **options)) as events:
        async for each in events:
            seen.append((each.type, each.resource_version))
            if len(seen) == count:
                return seen


async def test_a_watch_goes_on_over_broken_connections(way):
    cut = event("MODIFIED", claim("a", 4))
    script = Script(
        *dropped(way),
        Stream([event("ADDED", claim("a", 1)) + event("ADDED", claim("b", 2))]),
        Say(refusal(500, "InternalError"), 500),
        Stream([bookmark(3), cut[:20]], "drop"),
        Stream([cut[:7], cut[7:]]),
        Stream([b"garbage\n", event("ADDED", claim("never", 99))]),
        Stream([b'{"type": "ADDED"}\n']),
        Stream([b'"ADDED"\n']),
        Stream([event("ERROR", refusal(500, "InternalError"))]),
        Stream([b"\n", event("DELETED", claim("a", 5))], "hang"),
    )
    async with client_of(way, script) as client:
        seen = await collect(client, 5, namespace="default", resource_version="0")
    assert seen == [("ADDED", "1"), ("ADDED", "2"), ("BOOKMARK", "3"), ("MODIFIED", "4"), ("DELETED", "5")]
    positions = [heard.query["resourceVersion"] for heard in script.heard[len(dropped(way)) :]]
    assert positions == ["0", "2", "2", "3", *["4"] * 5]
    assert {heard.query["allowWatchBookmarks"] for heard in script.heard} == {"true"}
    assert {heard.query["timeoutSeconds"] for heard in script.heard} == {"20" if way == "http" else "600"}
    # Twice a failure by itself, then a broken one that had brought something, then four that brought nothing.
    assert script.slept == [0.1, 0.1, 0.1, 0.1, 0.2, 0.4, 0.8]
    assert script.heard[0].path == BASE


@pytest.mark.parametrize("where", ["answer", "event"])
@pytest.mark.parametrize(("status", "reason"), [(410, "Expired"), (403, "Forbidden")])
async def test_a_watch_ends_where_it_cannot_go_on(way, where, status, reason):
    document = refusal(status, reason)
    script = Script(Say(document, status) if where == "answer" else Stream([event("ERROR", document)]))
    async with client_of(way, script) as client:
        with pytest.raises(ApiError) as refused:
            await collect(client, 1)
    assert (refused.value.status, refused.value.reason) == (status, reason)
    assert refused.value.is_gone == (status == 410)


async def test_lines_without_end_are_given_up(way, monkeypatch):
    monkeypatch.setattr("dray.client.watching.LONGEST_LINE", 1000)
    script = Script(Stream([b"x" * 400] * 10, "hang"), Stream([event("ADDED", claim("a", 1))]))
    async with client_of(way, script) as client:
        assert await collect(client, 1) == [("ADDED", "1")]


async def test_leaving_a_watch_ends_it_at_the_server():
    script = Script(Stream([event("ADDED", claim("a", 1))], "hang"))
    async with client_of("http", script) as client:
        async with aclosing(client.watch(CLAIMS)) as events:
            await anext(events)
            await asyncio.sleep(0.05)
            assert script.hanging == 1
        async with asyncio.timeout(30):
            while script.hanging:
                await asyncio.sleep(0.01)


async def test_logs_come_in_pieces(way):
    script = Script(Stream([b"one\n", b"two"]), Say(refusal(404, "NotFound"), 404), Stream([b"one"], "drop"))
    async with client_of(way, script) as client:
        assert b"".join([piece async for piece in client.stream("/log", query={"follow": "true"})]) == b"one\ntwo"
        with pytest.raises(ApiError, match="no"):
            await anext(client.stream("/log"))
        with pytest.raises(ConnectionFailed):
            _ = [piece async for piece in client.stream("/log")]
