"""Subresources that do something: binding, eviction, tokens, logs, scale, the parts of a running pod."""

import json

import pytest

from tests.server.api import CLAIMS, MERGE, PODS, claim, pod

BOTH_FORMS = True

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def bind(target, name="p", **metadata):
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}


NODE = {"kind": "Node", "name": "n1"}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


class TestBinding:
    def test_puts_a_pod_on_a_node(self, api):
        api.create(PODS, pod())
        code, answer = api.ask("POST", f"{PODS}/p/binding", bind(NODE, annotations={"a": "b"}))
        assert (code, answer["status"]) == (201, "Success")
        bound = api.get(f"{PODS}/p")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {"a": "b"}
        assert bound["status"]["conditions"][0]["type"] == "PodScheduled"

    def test_only_once(self, api):
        api.create(PODS, pod(nodeName="n0"))
        assert api.refusal("POST", f"{PODS}/p/binding", bind(NODE))[:2] == (409, "Conflict")

    def test_not_through_a_gate(self, api):
        api.create(PODS, pod(schedulingGates=[{"name": "example.com/wait"}]))
        assert api.get(f"{PODS}/p")["status"]["conditions"][0]["reason"] == "SchedulingGated"
        assert api.refusal("POST", f"{PODS}/p/binding", bind(NODE))[0] == 409

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (bind(NODE, name="q"), 400),
            (bind({"kind": "Cloud", "name": "n1"}), 500),
            (bind({"name": ""}), 500),
            (bind({"name": "BAD"}), 500),
            (bind(NODE, uid="other"), 409),
        ],
    )
    def test_what_is_refused(self, api, body, code):
        api.create(PODS, pod())
        assert api.ask("POST", f"{PODS}/p/binding", body)[0] == code

    def test_a_pod_that_is_not_there(self, api):
        assert api.refusal("POST", f"{PODS}/p/binding", bind(NODE))[0] == 404

    @pytest.mark.parametrize(
        "metadata", [{"labels": {"a b": "c"}}, {"labels": {"a": "b c"}}, {"annotations": {"?": ""}}]
    )
    def test_what_a_pod_may_not_have_is_not_given_to_it(self, api, metadata):
        api.create(PODS, pod("p"))
        assert api.refusal("POST", f"{PODS}/p/binding", bind(NODE, **metadata))[0] == 422
        assert "nodeName" not in api.get(f"{PODS}/p")["spec"]


class TestEviction:
    @pytest.fixture
    def running(self, api):
        api.create(
            PODS,
            {**pod(nodeName="n1", terminationGracePeriodSeconds=0), "metadata": {"name": "p", "labels": {"app": "x"}}},
        )
        self.ready(api, "True")
        return api

    def ready(self, api, status):
        conditions = [{"type": "Ready", "status": status}]
        api.patch(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": conditions}})

    def budget(self, api, allowed, **policy):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}, **policy}
        api.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        state = {"disruptionsAllowed": allowed, "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}
        api.patch(f"{BUDGETS}/b/status", {"status": {**state, "expectedPods": 1}})

    def test_deletes_the_pod(self, running):
        assert running.create(f"{PODS}/p/eviction", EVICTION)["status"] == "Success"
        assert running.ask("GET", f"{PODS}/p")[0] == 404

    def test_the_pod_says_why_it_goes(self, running):
        running.patch(f"{PODS}/p", {"metadata": {"finalizers": ["example.com/wait"]}})
        assert running.create(f"{PODS}/p/eviction?dryRun=All", EVICTION)["status"] == "Success"
        conditions = running.get(f"{PODS}/p")["status"]["conditions"]
        assert [each["type"] for each in conditions] == ["Ready"]
        for _ in range(2):
            assert running.create(f"{PODS}/p/eviction", EVICTION)["status"] == "Success"
        ready, mark = running.get(f"{PODS}/p")["status"]["conditions"]
        assert ready["type"] == "Ready"
        assert (mark["type"], mark["status"], mark["reason"]) == ("DisruptionTarget", "True", "EvictionByEvictionAPI")

    def test_a_budget_may_refuse(self, running):
        self.budget(running, 0)
        assert running.refusal("POST", f"{PODS}/p/eviction", EVICTION) == (
            429,
            "TooManyRequests",
            ["DisruptionBudget"],
        )
        assert running.get(f"{PODS}/p")

    def test_nobody_is_told_when_a_budget_will_allow_more(self, running):
        """Clients of Kubernetes would try again by themselves, and evict the pod as soon as they may."""
        self.budget(running, 0)
        answer = running.raw("POST", f"{PODS}/p/eviction", json.dumps(EVICTION).encode())
        assert (answer.code, "Retry-After" in answer.headers) == (429, False)
        refusal = running.ask("POST", f"{PODS}/p/eviction", EVICTION)[1]
        assert not refusal["details"].get("retryAfterSeconds")

    def test_a_budget_that_is_not_counted_yet_is_worth_another_try(self, running):
        self.budget(running, 5)
        running.patch(f"{BUDGETS}/b", {"spec": {"minAvailable": 2}})
        assert running.raw("POST", f"{PODS}/p/eviction", json.dumps(EVICTION).encode()).headers["Retry-After"] == "10"
        code, refusal = running.ask("POST", f"{PODS}/p/eviction", EVICTION)
        (cause,) = refusal["details"]["causes"]
        assert (code, refusal["details"]["retryAfterSeconds"]) == (429, 10)
        assert cause["message"] == "The disruption budget b is still being processed by the server."

    @pytest.mark.parametrize(
        ("healthy", "reason", "told", "message"),
        [
            (1, "InsufficientPods", "", "needs 1 healthy pods and has 1 currently"),
            (2, "Other", "later", "does not allow evicting pods currently (Other): later"),
            (2, "Other", "", "does not allow evicting pods currently"),
            (0, "SyncFailed", "no scale", "does not allow evicting pods currently because it failed sync: no scale"),
        ],
    )
    def test_why_a_budget_refuses(self, running, healthy, reason, told, message):
        self.budget(running, 0)
        condition = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": told}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        running.patch(f"{BUDGETS}/b/status", {"status": {"currentHealthy": healthy, "conditions": [condition]}})
        refusal = running.ask("POST", f"{PODS}/p/eviction", EVICTION)[1]
        assert [each["message"] for each in refusal["details"]["causes"]] == [f"The disruption budget b {message}"]

    def test_evictions_that_nobody_confirms_are_not_piled_up(self, running):
        self.budget(running, 1)
        pods = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}
        running.patch(f"{BUDGETS}/b/status", {"status": {"disruptedPods": pods}})
        assert running.refusal("POST", f"{PODS}/p/eviction", EVICTION) == (403, "Forbidden", ["DisruptionBudget"])

    def test_or_be_spent(self, running):
        self.budget(running, 1)
        running.create(f"{PODS}/p/eviction", EVICTION)
        state = running.get(f"{BUDGETS}/b")["status"]
        assert state["disruptionsAllowed"] == 0
        assert list(state["disruptedPods"]) == ["p"]

    def test_a_pod_that_is_not_ready_takes_nothing_from_a_budget_that_is_met(self, running):
        self.budget(running, 0)
        self.ready(running, "False")
        running.create(f"{PODS}/p/eviction", EVICTION)
        assert "disruptedPods" not in running.get(f"{BUDGETS}/b")["status"]

    @pytest.mark.parametrize(("policy", "code"), [("AlwaysAllow", 201), ("IfHealthyBudget", 429)])
    def test_a_budget_that_is_not_met_says_whether_it_may_go(self, running, policy, code):
        self.budget(running, 0, unhealthyPodEvictionPolicy=policy)
        running.patch(f"{BUDGETS}/b/status", {"status": {"currentHealthy": 0}})
        self.ready(running, "False")
        assert running.ask("POST", f"{PODS}/p/eviction", EVICTION)[0] == code


class TestStatus:
    def test_spec_and_status_are_apart(self, api):
        api.create(CLAIMS, claim())
        allocation = {"devices": {"results": [{"request": "gpu", "driver": "d.x", "pool": "p", "device": "g"}]}}
        body = {**claim(labels={"new": "label"}), "status": {"allocation": allocation}}
        after = api.put(f"{CLAIMS}/c/status", body)
        assert after["status"] == {"allocation": allocation}
        assert "labels" not in after["metadata"]
        assert api.put(f"{CLAIMS}/c", claim(labels={"a": "b"}))["status"] == {"allocation": allocation}
        assert api.get(f"{CLAIMS}/c/status")["metadata"]["labels"] == {"a": "b"}

    def test_a_part_that_is_not_there(self, api):
        api.create(CLAIMS, claim())
        assert api.refusal("GET", f"{CLAIMS}/c/scale")[0] == 404
        assert api.refusal("DELETE", f"{CLAIMS}/c/status")[0] == 405


class TestTokens:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"

    def test_are_issued_and_known(self, api):
        token = api.create(self.path, {"spec": {}})["status"]["token"]
        review = api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
        assert review["status"]["user"]["username"] == "system:serviceaccount:default:default"

    @pytest.mark.parametrize("body", [{"spec": {"audiences": 5}}, {"spec": {"expirationSeconds": 5}}, {"kind": "Pod"}])
    def test_not_for_any_request(self, api, body):
        assert api.ask("POST", self.path, body)[0] in (400, 422)


class TestNodes:
    """What only a node can answer."""

    @pytest.mark.parametrize(
        ("spec", "query", "code"),
        [({}, "", 400), ({"nodeName": "n1"}, "", 404), ({"nodeName": "n1"}, "?container=other", 400)],
    )
    def test_logs(self, api, spec, query, code):
        api.create(PODS, pod(**spec))
        assert api.ask("GET", f"{PODS}/p/log{query}")[0] == code

    @pytest.mark.parametrize("part", ["attach", "exec?command=ls", "portforward?ports=80"])
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_connections(self, api, method, part):
        api.create(PODS, pod(nodeName="n1"))
        code, answer = api.ask(method, f"{PODS}/p/{part}")
        assert (code, answer["message"]) == (404, 'nodes "n1" not found')

    def test_of_a_pod_that_is_not_there(self, api):
        assert api.ask("POST", f"{PODS}/p/exec?command=ls")[0] == 404


class TestPartsOfAPod:
    def test_ephemeral_containers_are_added(self, api):
        api.create(PODS, pod())
        container = {"name": "debug", "image": "busybox"}
        patched = api.patch(f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [container]}})
        assert patched["spec"]["ephemeralContainers"][0]["name"] == "debug"
        assert patched["metadata"]["generation"] == 2
        gone = {"spec": {"ephemeralContainers": None}}
        assert api.refusal("PATCH", f"{PODS}/p/ephemeralcontainers", gone, content_type=MERGE)[0] == 422

    def test_resources_are_resized(self, api):
        made = api.create(PODS, pod(containers=[self.container(cpu="1")]))
        made["spec"]["containers"] = [self.container(cpu="2")]
        resized = api.put(f"{PODS}/p/resize", made)
        assert resized["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}

    @staticmethod
    def container(**requests):
        return {"name": "c", "image": "i", "resources": {"requests": requests} if requests else {}}

    @pytest.mark.parametrize(
        ("resources", "text"),
        [
            ({"requests": {"cpu": "-1"}}, "must be greater than or equal to 0"),
            ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "must be less than or equal to"),
            ({}, "Pod QOS Class may not change as a result of resizing"),
            ({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}, "only cpu and memory resources are mutable"),
        ],
    )
    def test_a_resize_is_validated(self, api, resources, text):
        made = api.create(PODS, pod(containers=[self.container(cpu="1")]))
        made["spec"]["containers"][0]["resources"] = resources
        code, answer = api.ask("PUT", f"{PODS}/p/resize", made)
        assert code == 422
        assert text in answer["message"]


class TestMetadataOfAStatus:
    def test_older_kinds_take_labels_and_annotations_with_their_status(self, api):
        path = "/api/v1/namespaces/default/status"
        patched = api.patch(path, {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}})
        assert patched["metadata"]["annotations"] == {"a": "b"}
        assert api.get("/api/v1/namespaces/default")["metadata"]["labels"]["c"] == "d"

    def test_but_the_owners_of_a_pod_stay(self, api):
        api.create(PODS, pod())
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
        body = {"metadata": {"labels": {"a": "b"}, "ownerReferences": [owner]}, "status": {"phase": "Running"}}
        patched = api.patch(f"{PODS}/p/status", body)
        assert patched["metadata"]["labels"] == {"a": "b"}
        assert "ownerReferences" not in patched["metadata"]
