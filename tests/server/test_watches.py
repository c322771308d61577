"""Watches: where they begin, what they tell, how they end."""

import asyncio

import msgspec
import pytest

from dray.server import watches
from dray.server.requests import Request
from tests.server.api import MAPS, METADATA, TABLE, config_map

BOTH_FORMS = True


def told(events):
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.fixture
def story(api):
    """A revision, and what happened since."""
    start = api.get(MAPS)["metadata"]["resourceVersion"]
    api.create(MAPS, config_map("a", labels={"step": "one"}))
    api.patch(f"{MAPS}/a", {"metadata": {"labels": {"step": "two"}}})
    api.create(MAPS, config_map("b"))
    api.delete(f"{MAPS}/a")
    return start


class TestFromARevision:
    def test_everything_since(self, api, story):
        events = api.watch(f"{MAPS}?watch=1&resourceVersion={story}", events=4)
        assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
        assert versions == sorted(set(versions))

    def test_what_begins_and_ceases_to_match(self, api, story):
        two = api.watch(f"{MAPS}?watch=1&resourceVersion={story}&labelSelector=step%3Dtwo", events=2)
        assert told(two) == [("ADDED", "a"), ("DELETED", "a")]
        one = api.watch(f"{MAPS}?watch=1&resourceVersion={story}&labelSelector=step%3Done", events=2)
        assert told(one) == [("ADDED", "a"), ("DELETED", "a")]
        assert one[1]["object"]["metadata"]["labels"] == {"step": "one"}

    def test_one_object(self, api, story):
        events = api.watch(f"{MAPS}/b?watch=1&resourceVersion={story}", events=1)
        assert told(events) == [("ADDED", "b")]

    def test_one_that_is_forgotten(self, api, story):
        api.runner.run(api.context.store.compact(api.context.store.revision))
        (event,) = api.watch(f"{MAPS}?watch=1&resourceVersion={story}")
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


class TestFromTheBeginning:
    @pytest.mark.parametrize("query", ["", "&resourceVersion=0"])
    def test_what_is_there_comes_first(self, api, story, query):
        assert told(api.watch(f"{MAPS}?watch=true{query}", events=1)) == [("ADDED", "b")]

    def test_a_bookmark_says_where_that_ends(self, api, story):
        query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        added, end = api.watch(f"{MAPS}?{query}", events=2)
        assert told([added]) == [("ADDED", "b")]
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert end["object"]["metadata"]["resourceVersion"] == str(api.context.store.revision)

    def test_which_is_a_table_among_tables(self, api, story):
        query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        added, end = api.watch(f"{MAPS}?{query}", events=2, accept=TABLE)
        assert (added["type"], end["type"]) == ("ADDED", "BOOKMARK")
        assert end["object"]["kind"] == "Table"
        (row,) = end["object"]["rows"]
        assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    def test_or_not_at_all(self, api, story):
        query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
        assert api.watch(f"{MAPS}?{query}") == []

    def test_the_two_parameters_belong_together(self, api):
        assert api.refusal("GET", f"{MAPS}?watch=1&sendInitialEvents=true")[0] == 422
        assert api.refusal("GET", f"{MAPS}?watch=1&resourceVersionMatch=NotOlderThan")[0] == 422


def test_it_ends_when_its_time_is_over(api):
    assert api.watch(f"{MAPS}?watch=1&timeoutSeconds=1") == []


def test_bookmarks_say_how_far_it_has_come(api, monkeypatch):
    monkeypatch.setattr(watches, "BOOKMARK_SECONDS", 0.05)
    api.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "elsewhere"}})
    (event,) = api.watch(f"{MAPS}?watch=1&allowWatchBookmarks=1", events=1)
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "ConfigMap"
    assert event["object"]["metadata"]["resourceVersion"] == str(api.context.store.revision)


def test_tables_show_their_columns_once(api, story):
    first, second = api.watch(f"{MAPS}?watch=1&resourceVersion={story}", events=2, accept=TABLE)
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert first["object"]["rows"][0]["cells"][0] == "a"
    assert second["object"]["columnDefinitions"] is None


def test_metadata_alone(api, story):
    (event,) = api.watch(f"{MAPS}?watch=1&resourceVersion={story}", events=1, accept=METADATA)
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in event["object"]


def test_old_versions_are_converted(api):
    beta = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "g", "deviceClassName": "gpu"}]}}}
    api.create(beta, body)
    (event,) = api.watch(f"{beta}?watch=1", events=1)
    assert event["object"]["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"


async def posted(api, body):
    headers = {"content-type": "application/json"}
    await api.server.handle(Request("POST", MAPS, headers=headers, body=msgspec.json.encode(body)))


def test_a_reader_that_falls_behind_is_told_to_list_again(api):
    async def story():
        answer = await api.server.handle(Request("GET", MAPS, "watch=1&resourceVersion=0"))
        events = aiter(answer.chunks)
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for index in range(1100):
            await posted(api, config_map(f"m{index}"))
        return [msgspec.json.decode(event) for event in [await first, *[event async for event in events]]]

    assert [event["type"] for event in api.runner.run(story())] == ["ERROR"]


def test_events_of_a_watch_can_be_read_while_they_happen(api):
    async def story():
        answer = await api.server.handle(Request("GET", MAPS, "watch=1"))
        events = aiter(answer.chunks)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await posted(api, config_map())
        event = msgspec.json.decode(await waiting)
        await events.aclose()
        return event

    assert told([api.runner.run(story())]) == [("ADDED", "m")]


@pytest.mark.parametrize(
    "query", ["?watch=1&resourceVersion=999999999", "?resourceVersion=999999999&resourceVersionMatch=Exact"]
)
def test_a_revision_that_was_not_reached_is_refused(api, query):
    code, refusal = api.ask("GET", MAPS + query)
    assert (code, refusal["reason"]) == (504, "Timeout")
    assert refusal["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert refusal["details"]["retryAfterSeconds"] == 1
