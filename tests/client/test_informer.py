import asyncio
import contextlib

import pytest

from dray.client import informer as informer_module
from dray.client.informer import Informer
from dray.client.interface import GroupVersionResource, Selection

from .scripted import Drop, Say, Script, Stream, bookmark, claim, client_of, event, refusal

CLAIMS = GroupVersionResource("resource.k8s.io", "v1", "resourceclaims")


def listed(version, *items, token=""):
    return Say(
        {"kind": "ResourceClaimList", "metadata": {"resourceVersion": str(version), "continue": token}, "items": items}
    )


@pytest.fixture(params=["http", "direct"])
def way(request):
    return request.param


@contextlib.asynccontextmanager
async def informing(way, script, **options):
    """A running informer and what it told."""
    async with client_of(way, script) as client:
        informer = Informer(client, CLAIMS, retries=script.retries, **options)
        told = []
        informer.add_handler(
            lambda change: told.append((change.type, change.key[1], change.object["metadata"]["resourceVersion"]))
        )
        task = asyncio.ensure_future(informer.run())
        try:
            yield informer, told
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": []},
        {"kind": "Status", "metadata": {}},
        {"kind": "ResourceClaimList", "metadata": {}, "items": {}},
        {"kind": "ResourceClaimList", "metadata": {}, "items": [{"metadata": None}, 7, None]},
        {"kind": "ResourceClaimList", "metadata": {}, "items": [{"metadata": {}}]},
        {"kind": "ResourceClaimList", "metadata": None, "items": []},
    ],
)
async def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_one(way, answer):
    script = Script(listed(5, claim("a", 1)), Say(answer), listed(7, claim("a", 1), claim("b", 2)))
    script.watches.extend([Say(refusal(410, "Expired"), 410), Stream([], "hang")])
    async with informing(way, script) as (_, told):
        await until(lambda: len(told) == 2)
        assert told == [("ADDED", "a", "1"), ("ADDED", "b", "2")]


async def test_lists_then_watches(way):
    script = Script(listed(5, claim("a", 1), token="x"), listed(5, claim("b", 2)))
    script.watches.append(
        Stream(
            [event("ADDED", claim("c", 6)), event("MODIFIED", claim("a", 7)), event("DELETED", claim("b", 8))], "hang"
        )
    )
    async with informing(way, script, namespace="default", selection=Selection("x=y")) as (informer, told):
        assert not informer.has_synced
        await informer.synced()
        assert {"a", "b"} <= {value["metadata"]["name"] for value in informer.cache}
        await until(lambda: informer.resource_version == "8")
        assert told == [
            ("ADDED", "a", "1"),
            ("ADDED", "b", "2"),
            ("ADDED", "c", "6"),
            ("MODIFIED", "a", "7"),
            ("DELETED", "b", "8"),
        ]
        assert informer.cache.get("a", namespace="default") == claim("a", 7)
        assert informer.cache.get("b", namespace="default") is None
    watch = script.heard[2]
    assert (watch.query["resourceVersion"], watch.query["labelSelector"]) == ("5", "x=y")
    assert watch.path == "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


async def test_resumes_over_drops_garbage_and_bookmarks(way):
    script = Script(listed(5))
    script.watches.extend(
        [
            Stream([event("ADDED", claim("a", 6)), bookmark(10)], "drop"),
            Stream([b"{]\n"]),
            Drop(),
            Drop(),
            Stream([event("MODIFIED", claim("a", 11)), b'{"type":"MODI'], "drop"),
            Stream([event("DELETED", claim("a", 12))], "hang"),
        ]
    )
    async with informing(way, script) as (informer, told):
        await until(lambda: informer.resource_version == "12")
    assert told == [("ADDED", "a", "6"), ("MODIFIED", "a", "11"), ("DELETED", "a", "12")]
    positions = [heard.query["resourceVersion"] for heard in script.heard if "watch" in heard.query]
    assert positions == ["5", "10", "10", "10", "10", "11"]
    assert sum("watch" not in heard.query for heard in script.heard) == 1


EXPIRED = refusal(410, "Expired", "too old resource version")
AHEAD = refusal(504, "Timeout", "Too large resource version", causes=[{"reason": "ResourceVersionTooLarge"}])


@pytest.mark.parametrize(("gone", "expired"), [("answer", EXPIRED), ("event", EXPIRED), ("answer", AHEAD)])
async def test_lists_again_when_the_server_forgot(way, gone, expired):
    script = Script(
        listed(5, claim("kept", 1), claim("changed", 2), claim("lost", 3), claim("anew", 4, uid="one")),
        listed(50, claim("kept", 1), claim("changed", 40), claim("anew", 41, uid="two"), claim("new", 42)),
    )
    script.watches.extend(
        [
            Say(expired, expired["code"]) if gone == "answer" else Stream([event("ERROR", expired)]),
            Stream([event("MODIFIED", claim("new", 51))], "hang"),
        ]
    )
    async with informing(way, script) as (informer, told):
        await until(lambda: informer.resource_version == "51")
        assert {value["metadata"]["name"] for value in informer.cache} == {"kept", "changed", "anew", "new"}
    assert told[4:] == [
        ("DELETED", "lost", "3"),
        ("MODIFIED", "changed", "40"),
        ("DELETED", "anew", "4"),
        ("ADDED", "anew", "41"),
        ("ADDED", "new", "42"),
        ("MODIFIED", "new", "51"),
    ]
    assert [heard.query["resourceVersion"] for heard in script.heard if "watch" in heard.query] == ["5", "50"]


async def test_a_server_that_forgets_at_once_is_not_hammered(way):
    expired = Say(refusal(410, "Expired"), 410)
    script = Script(*[listed(5)] * 6)
    script.watches.extend([expired] * 5 + [Stream([], "hang")])
    async with informing(way, script):
        await until(lambda: not script.watches)
    assert script.slept == [0.1, 0.2, 0.4, 0.8, 1.6]


async def test_a_server_that_forgets_after_long_is_asked_again_at_once(way, monkeypatch):
    """Of a kind where nothing happens, and that is watched for hours, no event tells that all is well."""
    monkeypatch.setattr(informer_module, "_LASTING", -1.0)
    script = Script(*[listed(5)] * 6)
    script.watches.extend([Say(refusal(410, "Expired"), 410)] * 5 + [Stream([], "hang")])
    async with informing(way, script):
        await until(lambda: not script.watches)
    assert script.slept == [0.1] * 5


async def test_a_refused_list_is_tried_again(way, caplog):
    script = Script(Say(refusal(403, "Forbidden", "you may not"), 403), Say(raw=b"{"), listed(5, claim("a", 1)))
    script.watches.append(Stream([], "hang"))
    async with informing(way, script) as (informer, told):
        await informer.synced()
    assert told == [("ADDED", "a", "1")]
    assert "you may not" in caplog.text
    assert script.slept == [0.1, 0.2]


async def test_a_failing_handler_harms_nobody(way, caplog):
    script = Script(listed(5, claim("a", 1)))
    script.watches.append(Stream([event("ADDED", claim("b", 6))], "hang"))
    async with informing(way, script) as (informer, told):
        informer.add_handler(lambda change: 1 / 0)
        late = []
        await until(lambda: informer.resource_version == "6")
        informer.add_handler(lambda change: late.append((change.type, change.key)))
        assert late == [("ADDED", ("default", "a")), ("ADDED", ("default", "b"))]
    assert len(told) == 2
    assert caplog.text.count("ZeroDivisionError") == 2


async def test_indexes_follow(way):
    script = Script(listed(5, claim("a", 1, node="x"), claim("b", 2, node="y")))
    script.watches.append(Stream([event("MODIFIED", claim("b", 6, node="x"))], "hang"))
    async with informing(way, script, indexes={"node": lambda value: [value["node"]]}) as (informer, _):
        await until(lambda: informer.resource_version == "6")
        assert [value["metadata"]["name"] for value in informer.cache.by("node", "x")] == ["a", "b"]
        assert informer.cache.by("node", "y") == []
        assert len(informer.cache.in_namespace("default")) == 2
