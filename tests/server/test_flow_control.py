"""Priority and fairness: requests are told apart, have turns, and one flow keeps no other from its turn."""

import asyncio

import pytest

from dray.server.authorization import AUTHENTICATED, User
from dray.server.flow_control.levels import Level
from dray.server.flow_control.schemas import Flow, flow_of
from dray.server.requests import Request
from dray.server.status import ApiError
from tests.server.api import MERGE

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{GROUP}/flowschemas", f"{GROUP}/prioritylevelconfigurations"


def schema(level="mine", name="mine", **rule):
    subjects = [{"kind": "User", "user": {"name": "mia"}}]
    rules = rule or {"nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/healthz", "/apis/*"]}]}
    spec = {"matchingPrecedence": 500, "priorityLevelConfiguration": {"name": level}}
    return {"metadata": {"name": name}, "spec": {**spec, "rules": [{"subjects": subjects, **rules}]}}


def level_spec(**limited):
    response = {"type": "Queue", "queuing": {"queues": 2, "handSize": 1, "queueLengthLimit": 2}}
    return {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": response, **limited}}


def settled(api):
    for _ in range(20):
        api.runner.run(asyncio.sleep(0))


def classified(api, path, user="mia", groups=(AUTHENTICATED,), method="GET"):
    found = api.server.flow_control.classify(flow_of(Request(method, path, user=User(user, groups))))
    return found[0].name, found[1].name


def dangling(api):
    settled(api)
    [condition] = api.get(f"{SCHEMAS}/mine")["status"]["conditions"]
    return condition["status"], condition["reason"]


def test_a_schema_takes_what_it_matches_once_its_level_is_there(api):
    api.create(SCHEMAS, schema())
    assert dangling(api) == ("True", "NotFound")
    assert classified(api, "/healthz")[0] == "probes"
    assert classified(api, "/apis/apps") == ("global-default", "global-default")
    api.create(LEVELS, {"metadata": {"name": "mine"}, "spec": level_spec()})
    assert dangling(api) == ("False", "Found")
    assert classified(api, "/apis/apps") == ("mine", "mine")
    assert classified(api, "/apis/apps", user="kim")[0] == "global-default"
    assert b'apiserver_flowcontrol_nominal_limit_seats{priority_level="mine"}' in api.raw("GET", "/metrics").body


def test_conditions_that_somebody_else_wrote_without_a_type_stop_nobody(api):
    api.create(SCHEMAS, schema())
    settled(api)
    api.patch(f"{SCHEMAS}/mine/status", {"status": {"conditions": [{"status": "True"}]}}, MERGE)
    api.create(LEVELS, {"metadata": {"name": "mine"}, "spec": level_spec()})
    settled(api)
    told = api.get(f"{SCHEMAS}/mine")["status"]["conditions"]
    assert [each["reason"] for each in told if each.get("type") == "Dangling"] == ["Found"]


@pytest.mark.parametrize(
    ("path", "method", "taken"),
    [
        ("/api/v1/namespaces/a/pods", "GET", True),
        ("/api/v1/namespaces/b/pods", "GET", False),
        ("/api/v1/namespaces/a/pods/p/status", "GET", False),
        ("/api/v1/pods", "GET", False),
        ("/api/v1/namespaces/a/pods", "DELETE", False),
    ],
)
def test_resources_by_verb_and_namespace(api, path, method, taken):
    api.create(LEVELS, {"metadata": {"name": "mine"}, "spec": level_spec()})
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a"]}
    api.create(SCHEMAS, schema(resourceRules=[rule]))
    settled(api)
    assert (classified(api, path, method=method)[0] == "mine") is taken


def test_those_of_the_cluster_itself(api):
    settled(api)
    node = ("system:nodes", AUTHENTICATED)
    assert classified(api, "/api/v1/nodes/n/status", "system:node:n", node, "PATCH") == (
        "system-node-high",
        "node-high",
    )
    assert classified(api, "/api/v1/pods", "system:node:n", node) == ("system-nodes", "system")
    assert classified(api, "/api/v1/pods", "root", ("system:masters",))[1] == "exempt"


def test_what_a_pod_or_a_node_answers_takes_no_seat(api):
    settled(api)
    lasting = ("pods/p/proxy/x", "pods/p/log", "pods/p/exec", "services/s/proxy")
    for path in (*(f"namespaces/a/{each}" for each in lasting), "nodes/n/proxy/metrics"):
        flow = flow_of(Request("GET", f"/api/v1/{path}", user=User("mia", (AUTHENTICATED,))))
        assert api.server.flow_control.classify(flow) is None
    assert classified(api, "/api/v1/namespaces/a/pods/log")[0] == "global-default"


def test_long_paths_are_not_remembered(api):
    settled(api)
    before = len(api.server.flow_control._known)
    assert classified(api, f"/{'x' * 2000}")[0] == "global-default"
    assert len(api.server.flow_control._known) == before


def test_administrators_stay_exempt_whatever_is_deleted_or_changed(api):
    for path in (f"{SCHEMAS}/exempt", f"{LEVELS}/exempt", f"{LEVELS}/catch-all", f"{SCHEMAS}/catch-all"):
        api.ask("DELETE", path)
    settled(api)
    assert classified(api, "/api/v1/pods", "root", ("system:masters",)) == ("exempt", "exempt")
    everybody = [{"kind": "Group", "group": {"name": AUTHENTICATED}}]
    rules = [{**api.get(f"{SCHEMAS}/exempt")["spec"]["rules"][0], "subjects": everybody}]
    api.patch(f"{SCHEMAS}/exempt", {"spec": {"rules": rules}}, MERGE)
    settled(api)
    assert classified(api, "/api/v1/pods", "root", ("system:masters",))[1] == "exempt"
    assert classified(api, "/api/v1/pods")[1] == "global-default"
    before = api.get(f"{SCHEMAS}/exempt")
    settled(api)
    assert api.get(f"{SCHEMAS}/exempt") == before
    assert api.get(f"{LEVELS}/catch-all")


def test_lending_is_not_done_and_that_is_said(api):
    api.create(LEVELS, {"metadata": {"name": "mine"}, "spec": level_spec(lendablePercent=50)})
    assert "do not lend seats" in api.warnings[0]


def level(limit=1, **limited):
    made = Level("x")
    made.configure({"metadata": {"uid": "1"}, "spec": level_spec(**limited)})
    made.allow(limit)
    return made


async def test_flows_have_turns_and_too_many_are_refused():
    busy = level()
    await busy.enter("first")
    order = []

    async def wait(flow, number):
        await busy.enter(flow)
        order.append((flow, number))
        busy.leave()

    waiting = [asyncio.create_task(wait(flow, number)) for flow, number in (("a", 1), ("a", 2), ("b", 1))]
    await asyncio.sleep(0)
    assert busy.waiting == 3
    with pytest.raises(ApiError) as refused:
        await busy.enter("a")
    assert (refused.value.code, busy.rejected) == (429, 1)
    busy.leave()
    await asyncio.gather(*waiting)
    assert order == [("a", 1), ("b", 1), ("a", 2)]
    assert (busy.executing, busy.waiting) == (0, 0)


async def test_who_does_not_wait_any_longer_takes_no_seat():
    busy = level()
    await busy.enter("first")
    gone = asyncio.create_task(busy.enter("a"))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert busy.waiting == 0
    busy.leave()
    assert busy.executing == 0


def test_a_flow_is_read_from_the_request():
    request = Request("GET", "/apis/apps/v1/namespaces/a/deployments", "watch=true", user=User("mia", ("g",)))
    assert flow_of(request) == Flow("mia", ("g",), "watch", "apps", "deployments", "a")
