"""Lists: pages, selectors, forms."""

import pytest

from dray.server import reads
from tests.server.api import CLAIMS, MAPS, METADATA, PODS, TABLE, ProtobufApi, claim, config_map, named, pod

BOTH_FORMS = True


@pytest.fixture
def maps(api):
    for index in range(5):
        api.create(MAPS, config_map(f"m{index}", labels={"parity": "odd" if index % 2 else "even"}))
    return api


class TestPages:
    def test_go_through_everything(self, maps):
        first = maps.get(f"{MAPS}?limit=2")
        assert named(first) == ["m0", "m1"]
        assert first["metadata"]["remainingItemCount"] == 3
        second = maps.get(f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
        last = maps.get(f"{MAPS}?limit=2&continue={second['metadata']['continue']}")
        assert named(second) + named(last) == ["m2", "m3", "m4"]
        assert "continue" not in last["metadata"]

    def test_are_all_of_one_moment(self, maps):
        first = maps.get(f"{MAPS}?limit=2")
        maps.create(MAPS, config_map("m15"))
        maps.delete(f"{MAPS}/m4")
        rest = maps.get(f"{MAPS}?continue={first['metadata']['continue']}")
        assert named(rest) == ["m2", "m3", "m4"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    def test_with_a_selector(self, maps):
        first = maps.get(f"{MAPS}?limit=2&labelSelector=parity%3Deven")
        assert named(first) == ["m0", "m2"]
        rest = maps.get(f"{MAPS}?limit=2&labelSelector=parity%3Deven&continue={first['metadata']['continue']}")
        assert named(rest) == ["m4"]
        assert "continue" not in rest["metadata"]

    @pytest.mark.parametrize("selector", ["", "&labelSelector=parity%3Deven"])
    def test_are_limited_in_bytes_too(self, api, monkeypatch, selector):
        monkeypatch.setattr(reads, "PAGE_BYTES", 100_000)
        for index in range(9):
            parity = "odd" if selector and index % 3 == 2 else "even"
            api.create(MAPS, config_map(f"m{index}", labels={"parity": parity}, data={"a": "x" * 40_000}))
        query, found = f"?limit=500{selector}", []
        while query:
            page = api.get(f"{MAPS}{query}")
            assert len(page["items"]) <= 3
            found += named(page)
            token = page["metadata"].get("continue")
            query = f"?limit=500{selector}&continue={token}" if token else ""
        assert found == [f"m{index}" for index in range(9) if not (selector and index % 3 == 2)]

    def test_of_no_limit_are_the_whole_list(self, api, monkeypatch):
        monkeypatch.setattr(reads, "PAGE_BYTES", 1)
        for index in range(3):
            api.create(MAPS, config_map(f"m{index}"))
        assert named(api.get(MAPS)) == ["m0", "m1", "m2"]
        first = api.get(f"{MAPS}?limit=2")
        assert (named(first), first["metadata"]["remainingItemCount"]) == (["m0"], 2)

    def test_end_when_their_moment_is_forgotten(self, maps):
        first = maps.get(f"{MAPS}?limit=2")
        maps.create(MAPS, config_map("new"))
        maps.runner.run(maps.context.store.compact(maps.context.store.revision))
        assert maps.refusal("GET", f"{MAPS}?continue={first['metadata']['continue']}")[:2] == (410, "Expired")
        old = first["metadata"]["resourceVersion"]
        code, refusal = maps.ask("GET", f"{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact")
        assert (code, refusal["message"]) == (410, "The resourceVersion for the provided list is too old.")
        assert "continue" not in refusal["metadata"]

    def test_go_on_with_what_there_is_when_their_moment_is_forgotten(self, maps):
        first = maps.get(f"{MAPS}?limit=2")
        maps.create(MAPS, config_map("m00"))
        maps.create(MAPS, config_map("new"))
        maps.runner.run(maps.context.store.compact(maps.context.store.revision))
        code, refusal = maps.ask("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
        assert (code, "use the continue token in this response" in refusal["message"]) == (410, True)
        second = maps.get(f"{MAPS}?limit=2&continue={refusal['metadata']['continue']}")
        assert (named(second), second["metadata"]["remainingItemCount"]) == (["m2", "m3"], 2)
        # From here on the pages are of one moment again.
        maps.create(MAPS, config_map("newer"))
        last = maps.get(f"{MAPS}?limit=9&continue={second['metadata']['continue']}")
        assert (named(last), last["metadata"]["resourceVersion"]) == (
            ["m4", "new"],
            second["metadata"]["resourceVersion"],
        )

    @pytest.mark.parametrize("token", ["bad", "e30", "%00", "eyJ2IjoidjkiLCJydiI6MSwic3RhcnQiOiJhIn0"])
    def test_a_token_that_is_none(self, maps, token):
        assert maps.refusal("GET", f"{MAPS}?continue={token}")[0] == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("parity=odd", ["m1", "m3"]),
        ("parity==odd", ["m1", "m3"]),
        ("parity!=odd", ["m0", "m2", "m4"]),
        ("parity in (odd,even)", ["m0", "m1", "m2", "m3", "m4"]),
        ("parity notin (odd)", ["m0", "m2", "m4"]),
        ("parity", ["m0", "m1", "m2", "m3", "m4"]),
        ("!parity", []),
        ("parity=odd,nothing", []),
        ("other!=x", ["m0", "m1", "m2", "m3", "m4"]),
    ],
)
def test_labels(maps, selector, expected):
    assert named(maps.get(f"{MAPS}?labelSelector={selector}")) == expected


@pytest.mark.parametrize("selector", ["a in (", "a in b", "=", "a,,b", "a b", "a>x", "!", "bad key!=x", "a=b=c"])
def test_labels_that_cannot_be_read(maps, selector):
    assert maps.refusal("GET", f"{MAPS}?labelSelector={selector}")[:2] == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("spec.nodeName=n1", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("spec.nodeName=n1,metadata.name=b", ["b"]),
        ("status.phase=Pending", ["a", "b"]),
        ("metadata.namespace=default", ["a", "b"]),
        ("metadata.namespace=other", []),
        ("spec.hostNetwork=false", ["a", "b"]),
    ],
)
def test_fields(api, selector, expected):
    api.create(PODS, pod("a"))
    api.create(PODS, pod("b", nodeName="n1"))
    assert named(api.get(f"/api/v1/pods?fieldSelector={selector}")) == expected


@pytest.mark.parametrize("selector", ["spec.nosuch=1", "metadata.name", "metadata.name=a\\", "metadata.name=a=b"])
def test_fields_that_cannot_be_asked_for(api, selector):
    assert api.refusal("GET", f"{PODS}?fieldSelector={selector}")[0] == 400


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (PODS, "field label not supported: spec.nosuch"),
        (MAPS, '"spec.nosuch" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_a_field_is_named_once(api, path, message):
    assert api.ask("GET", f"{path}?fieldSelector=spec.nosuch%3D1")[1]["message"] == message


@pytest.mark.parametrize(
    "selector",
    [
        "labelSelector=" + ",".join(f"!a{number}" for number in range(1001)),
        "fieldSelector=" + ",".join(f"metadata.name!=a{number}" for number in range(1001)),
    ],
    ids=["labels", "fields"],
)
def test_selectors_have_a_limit(api, selector):
    code, answer = api.ask("GET", f"{MAPS}?{selector}")
    assert (code, answer["message"]) == (400, "a selector may have at most 1000 requirements")


@pytest.mark.parametrize(
    ("group", "selector"),
    [
        ("apis/events.k8s.io/v1", "reportingController=example.com/c"),
        ("apis/events.k8s.io/v1", "regarding.kind=Pod"),
        ("apis/events.k8s.io/v1", "reason=Bound"),
        ("apis/events.k8s.io/v1", "type=Normal"),
        ("api/v1", "reportingComponent=example.com/c"),
        ("api/v1", "involvedObject.kind=Pod"),
        ("api/v1", "source=example.com/c"),
    ],
)
def test_events_are_selected_by_what_they_say(api, group, selector):
    told = {"action": "Bind", "reason": "Bound", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z"}
    by = {"reportingComponent": "example.com/c", "reportingInstance": "c-1"}
    events = "/api/v1/namespaces/default/events"
    api.create(events, {"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "name": "p"}, **told, **by})
    api.create(events, {"metadata": {"name": "b"}, "involvedObject": {"kind": "Node", "name": "n"}, "reason": "Other"})
    assert named(api.get(f"/{group}/namespaces/default/events?fieldSelector={selector}")) == ["a"]


@pytest.mark.parametrize("name", ["source", "reportingComponent", "involvedObject.kind"])
def test_the_newer_group_of_events_knows_its_own_names(api, name):
    path = f"/apis/events.k8s.io/v1/events?fieldSelector={name}%3Dx"
    assert api.ask("GET", path)[1]["message"] == f"field label not supported: {name}"


class TestVersions:
    def test_an_exact_one(self, maps):
        revision = maps.get(MAPS)["metadata"]["resourceVersion"]
        maps.delete(f"{MAPS}/m0")
        exact = maps.get(f"{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")
        assert named(exact)[0] == "m0"

    @pytest.mark.parametrize(
        ("query", "code"),
        [
            ("resourceVersion=x", 400),
            ("resourceVersion=99999999", 504),
            ("resourceVersionMatch=Exact", 422),
            ("resourceVersion=1&resourceVersionMatch=Never", 422),
        ],
    )
    def test_that_cannot_be_given(self, maps, query, code):
        assert maps.ask("GET", f"{MAPS}?{query}")[0] == code


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("limit=", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("limit=1_0", 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        ("limit=9223372036854775808", 'strconv.ParseInt: parsing "9223372036854775808": value out of range'),
        ("timeoutSeconds=1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
        ("watch=1&timeoutSeconds=soon", 'strconv.ParseInt: parsing "soon": invalid syntax'),
        ("watch=1&limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("timeout=soon", 'invalid timeout specified in the request URL - time: invalid duration "soon"'),
        ("timeout=5", 'invalid timeout specified in the request URL - time: missing unit in duration "5"'),
    ],
)
def test_numbers_and_durations_that_are_none(maps, query, message):
    code, answer = maps.ask("GET", f"{MAPS}?{query}")
    assert (code, answer["reason"], answer["message"]) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=%2B5", "timeout=", "timeout=0", "timeout=1m30.5s", "timeoutSeconds=-1"]
)
def test_numbers_and_durations(maps, query):
    assert maps.ask("GET", f"{MAPS}?{query}")[0] == 200


def test_a_timeout_is_read_everywhere_but_where_requests_last(api):
    for path in ("/version", "/healthz", "/apis", PODS):
        assert api.ask("GET", f"{path}?timeout=soon")[0] == 400
    api.create(PODS, pod())
    assert api.watch(f"{PODS}?watch=1&timeout=soon", events=1)


def test_a_timeout_is_read_before_a_write(api):
    code, answer = api.ask("POST", f"{PODS}?timeout=never", pod())
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert api.ask("GET", f"{PODS}/p")[0] == 404


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("resourceVersionMatch=NotOlderThan", "forbidden for watch unless sendInitialEvents is provided"),
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", 'Unsupported value: "Exact"'),
    ],
)
def test_matches_that_a_watch_does_not_know(maps, query, message):
    code, answer = maps.ask("GET", f"{MAPS}?watch=1&{query}")
    assert code == 422
    assert message in answer["message"]


class TestForms:
    def test_items_of_a_list_leave_out_what_the_list_says(self, maps):
        listed = maps.get(MAPS)
        assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
        assert "kind" not in listed["items"][0]
        assert listed["items"][0]["metadata"] == maps.get(f"{MAPS}/m0")["metadata"]

    def test_a_table(self, api):
        api.create(CLAIMS, claim())
        table = api.get(CLAIMS, accept=TABLE)
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age"]
        assert table["rows"][0]["cells"][:2] == ["c", "pending"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

    @pytest.mark.parametrize(("include", "kind"), [("Object", "ResourceClaim"), ("None", None)])
    def test_rows_hold_what_was_asked_for(self, api, include, kind):
        api.create(CLAIMS, claim())
        row = api.get(f"{CLAIMS}/c?includeObject={include}", accept=TABLE)["rows"][0]
        assert row.get("object", {}).get("kind") == kind

    def test_metadata_alone(self, api):
        api.create(CLAIMS, claim(labels={"a": "b"}))
        one = api.get(f"{CLAIMS}/c", accept=METADATA)
        assert (one["kind"], one["metadata"]["labels"]) == ("PartialObjectMetadata", {"a": "b"})
        assert "spec" not in one
        many = api.get(CLAIMS, accept=METADATA.replace("Metadata;", "MetadataList;"))
        assert (many["kind"], len(many["items"])) == ("PartialObjectMetadataList", 1)

    @pytest.mark.parametrize("accept", ["text/html", "application/json;as=Poem;v=v1;g=meta.k8s.io"])
    def test_what_nobody_speaks(self, api, accept):
        assert api.refusal("GET", MAPS, accept=accept)[:2] == (406, "NotAcceptable")

    def test_the_second_choice_will_do(self, api):
        assert api.get(MAPS, accept="application/cbor,application/json")["kind"] == "ConfigMapList"


def test_a_list_does_not_decode_what_it_shows(maps, monkeypatch):
    """Bytes go out as they are kept."""
    if isinstance(maps, ProtobufApi):
        pytest.skip("protobuf is written anew")
    monkeypatch.setattr("dray.server.documents.decode", None)
    monkeypatch.setattr("dray.server.reads.representations.documents.decode", None)
    assert len(named(maps.get(MAPS))) == 5
