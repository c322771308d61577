"""What the server checks and fills in besides the rules of an object."""

import asyncio
import json

import pytest

from dray.server.authorization import ADMIN
from dray.server.context import Context
from dray.server.requests import Request
from dray.store.sqlite import SqliteStore
from tests.server.api import CLAIMS, MAPS, NODES, PODS, Api, claim, config_map, pod

NAMESPACES = "/api/v1/namespaces"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
JSON = {"content-type": "application/json"}
SECRETS = "/api/v1/namespaces/default/secrets"


def sized(name, requests=None, limits=None, **more):
    resources = {"requests": {**(requests or {}), **more}, "limits": limits or {}}
    return pod(name, containers=[{"name": "main", "image": "x", "resources": resources}])


class TestNamespaces:
    def test_are_born_active_and_labelled(self, api):
        made = api.create(NAMESPACES, {"metadata": {"name": "n"}})
        assert made["status"] == {"phase": "Active"}
        assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}

    def test_take_nothing_in_once_they_end(self, api):
        api.create(NAMESPACES, {"metadata": {"name": "n"}})
        marked = api.delete(f"{NAMESPACES}/n")
        assert marked["status"]["phase"] == "Terminating"
        late = api.refusal("POST", MAPS.replace("default", "n"), config_map("late"))
        assert late == (403, "Forbidden", ["metadata.namespace"])

    def test_stay_while_their_spec_has_finalizers(self, api):
        api.create(NAMESPACES, {"metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/mine"]}})
        api.delete(f"{NAMESPACES}/n")
        left = api.get(f"{NAMESPACES}/n")
        assert left["spec"]["finalizers"] == ["example.com/mine", "kubernetes"]
        api.put(f"{NAMESPACES}/n/finalize", {**left, "spec": {"finalizers": ["example.com/mine"]}})
        api.put(f"{NAMESPACES}/n/finalize", {"spec": {}})
        assert api.ask("GET", f"{NAMESPACES}/n")[0] == 404

    def test_some_last(self, api):
        assert api.refusal("DELETE", f"{NAMESPACES}/default")[:2] == (403, "Forbidden")


class TestAdminAccess:
    def body(self):
        request = {"name": "g", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
        return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}

    def test_needs_a_label_on_the_namespace(self, api):
        assert api.refusal("POST", CLAIMS, self.body())[0] == 422
        api.patch(f"{NAMESPACES}/default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})
        api.create(CLAIMS, self.body())


class TestPriority:
    def test_of_a_class(self, api):
        api.create(PRIORITIES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
        spec = api.create(PODS, pod(priorityClassName="high"))["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")

    def test_of_the_default(self, api):
        api.create(PRIORITIES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
        spec = api.create(PODS, pod())["spec"]
        assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")

    def test_there_is_one_default(self, api):
        usual = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
        api.create(PRIORITIES, usual)
        assert api.refusal("POST", PRIORITIES, {**usual, "metadata": {"name": "other"}})[:2] == (403, "Forbidden")
        assert api.patch(f"{PRIORITIES}/usual", {"description": "for most"})["globalDefault"] is True

    def test_of_a_class_that_is_not_there(self, api):
        assert api.refusal("POST", PODS, pod(priorityClassName="none"))[:2] == (403, "Forbidden")

    def test_of_a_group_of_pods(self, api):
        api.create(PRIORITIES, {"metadata": {"name": "high"}, "value": 1000})
        body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, "priorityClassName": "high"}}
        made = api.create(GROUPS, body)
        assert made["spec"]["priority"] == 1000
        assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        body["metadata"]["name"], body["spec"]["priority"] = "h", 5
        assert api.refusal("POST", GROUPS, body)[0] == 403


class TestQuota:
    def quota(self, api, **hard):
        api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})

    def test_of_claims(self, api):
        self.quota(api, **{"count/resourceclaims.resource.k8s.io": "1"})
        api.create(CLAIMS, claim("a"))
        code, answer = api.ask("POST", CLAIMS, claim("b"))
        assert code == 403
        assert "exceeded quota: q, requested: count/resourceclaims.resource.k8s.io=1, used: " in answer["message"]
        api.delete(f"{CLAIMS}/a")
        api.create(CLAIMS, claim("b"))

    @pytest.mark.parametrize(
        "name",
        [
            "gpu.deviceclass.resource.k8s.io/devices",
            "requests.deviceclass.resource.kubernetes.io/gpu",
            "requests.example.com/gpu",
        ],
    )
    def test_of_devices(self, api, name):
        api.create(CLASSES, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}})
        self.quota(api, **{name: "4"})
        api.create(CLAIMS, claim("a", count=3))
        assert api.refusal("POST", CLAIMS, claim("b", count=2))[0] == 403
        api.create(CLAIMS, claim("b", count=1))

    def test_alternatives_count_by_the_most(self, api):
        self.quota(api, **{"gpu.deviceclass.resource.k8s.io/devices": "3"})
        alternatives = [
            {"name": "a", "deviceClassName": "gpu", "count": 3},
            {"name": "b", "deviceClassName": "gpu", "count": 1},
        ]
        request = {"name": "g", "firstAvailable": alternatives}
        api.create(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
        assert api.refusal("POST", CLAIMS, claim("d", count=1))[0] == 403

    def test_of_pods(self, api):
        self.quota(api, pods="1")
        api.create(PODS, pod("a"))
        assert api.refusal("POST", PODS, pod("b"))[0] == 403
        api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
        api.create(PODS, pod("b"))
        assert api.refusal("POST", PODS, pod("c"))[0] == 403

    @pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
    def test_what_a_pod_says_of_itself_is_not_its_phase(self, api, phase):
        self.quota(api, pods="1", **{"requests.cpu": "3"})
        for member in ("labels", "annotations"):
            body = sized("p-", cpu="1")
            body["metadata"] = {"generateName": "p-", member: {"phase": phase}}
            last = api.ask("POST", PODS, body)
        assert last[0] == 403
        assert "used: pods=1, limited: pods=1" in last[1]["message"]

    def test_of_cpu_and_memory(self, api):
        self.quota(api, **{"requests.cpu": "2", "limits.memory": "3Gi"})
        api.create(PODS, sized("a", {"cpu": "1500m"}, {"memory": "1Gi"}))
        code, answer = api.ask("POST", PODS, sized("b", {"cpu": "1"}, {"memory": "2560Mi"}))
        assert (code, answer["reason"]) == (403, "Forbidden")
        assert answer["message"] == (
            'pods "b" is forbidden: exceeded quota: q, requested: limits.memory=2560Mi,requests.cpu=1, '
            "used: limits.memory=1Gi,requests.cpu=1500m, limited: limits.memory=3Gi,requests.cpu=2"
        )
        api.create(PODS, sized("b", {"cpu": "500m"}, {"memory": "2Gi"}))
        api.delete(f"{PODS}/a?gracePeriodSeconds=0")
        api.create(PODS, sized("c", {"cpu": "1500m"}, {"memory": "1Gi"}))

    def test_what_is_limited_must_be_stated(self, api):
        self.quota(api, **{"cpu": "2", "requests.ephemeral-storage": "1Gi"})
        code, answer = api.ask("POST", PODS, pod("b"))
        assert code == 403
        assert answer["message"] == 'pods "b" is forbidden: failed quota: q: must specify cpu for: main'
        api.create(PODS, sized("b", {"cpu": "1"}))

    @pytest.mark.parametrize(
        ("name", "resource"),
        [
            ("requests.ephemeral-storage", "ephemeral-storage"),
            ("hugepages-2Mi", "hugepages-2Mi"),
            ("requests.hugepages-2Mi", "hugepages-2Mi"),
            ("requests.example.com/gpu", "example.com/gpu"),
        ],
    )
    def test_of_other_amounts_of_pods(self, api, name, resource):
        self.quota(api, **{name: "4Mi"})
        amounts = {resource: "4Mi", "cpu": "1"}
        api.create(PODS, sized("a", amounts, amounts))
        assert api.refusal("POST", PODS, sized("b", amounts, amounts))[0] == 403
        api.create(PODS, pod("c"))

    @pytest.mark.parametrize(
        ("spec", "refused", "taken"),
        [
            ({"scopes": ["BestEffort"]}, {}, {"cpu": "1"}),
            ({"scopes": ["NotBestEffort"]}, {"cpu": "1"}, {}),
        ],
    )
    def test_of_pods_in_a_scope(self, api, spec, refused, taken):
        api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, **spec}})
        api.create(PODS, sized("a", refused))
        assert api.refusal("POST", PODS, sized("b", refused))[0] == 403
        for name in ("c", "d"):
            api.create(PODS, sized(name, taken))

    def test_of_pods_by_priority(self, api):
        api.create(PRIORITIES, {"metadata": {"name": "high"}, "value": 5})
        chosen = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
        api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}, "scopeSelector": chosen}})
        api.create(PODS, pod("a"))
        assert api.refusal("POST", PODS, pod("b", priorityClassName="high"))[0] == 403

    def test_a_pod_that_comes_into_a_scope_is_charged(self, api):
        api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}, "scopes": ["Terminating"]}})
        api.create(PODS, pod("a"))
        code, answer = api.ask(
            "PATCH", f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 5}}, content_type="application/merge-patch+json"
        )
        assert code == 403, answer
        assert "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in answer["message"]

    def test_a_resize_is_charged_with_the_difference(self, api):
        self.quota(api, **{"requests.cpu": "3"})
        made = api.create(PODS, sized("a", {"cpu": "2"}))
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        code, answer = api.ask("PUT", f"{PODS}/a/resize", made)
        assert code == 403
        assert "requested: requests.cpu=2, used: requests.cpu=2, limited: requests.cpu=3" in answer["message"]
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
        api.put(f"{PODS}/a/resize", made)

    def test_nothing_is_kept_of_a_namespace_without_quotas(self, api):
        self.quota(api, pods="1")
        api.create(PODS, pod("a"))
        assert list(api.context.usage._namespaces) == ["default"]
        api.delete(f"{QUOTAS}/q")
        assert not api.context.usage._namespaces
        api.create(PODS, pod("b"))
        self.quota(api, pods="2")
        assert api.refusal("POST", PODS, pod("c"))[0] == 403

    def test_of_pods_that_come_at_once(self, tmp_path):
        async def store():
            return SqliteStore(tmp_path)

        async def many(api):
            bodies = [json.dumps(sized(f"p{n}", {"cpu": "300m"})).encode() for n in range(40)]
            return await asyncio.gather(
                *(api.server.handle(Request("POST", PODS, "", JSON, body, ADMIN)) for body in bodies)
            )

        with asyncio.Runner() as runner:
            api = Api(runner, Context(runner.run(store())))
            self.quota(api, **{"requests.cpu": "3"})
            assert sum(answer.code == 201 for answer in runner.run(many(api))) == 10
            runner.run(api.server.close())
            runner.run(api.context.store.close())

    @pytest.mark.parametrize(
        "name", ["count/resourceclaims.resource.k8s.io", "gpu.deviceclass.resource.k8s.io/devices"]
    )
    def test_of_claims_that_come_at_once(self, name, tmp_path):
        async def store():
            return SqliteStore(tmp_path)

        async def both(api):
            made = [Request("POST", CLAIMS, "", JSON, json.dumps(claim(n)).encode(), ADMIN) for n in ("a", "b", "c")]
            return await asyncio.gather(*map(api.server.handle, made))

        with asyncio.Runner() as runner:
            api = Api(runner, Context(runner.run(store())))
            self.quota(api, **{name: "2"})
            assert sorted(answer.code for answer in runner.run(both(api))) == [201, 201, 403]
            runner.run(api.server.close())
            runner.run(api.context.store.close())

    def test_what_is_used_is_written_by_a_controller(self, api):
        self.quota(api, pods="1")
        status = {"hard": {"pods": "1"}, "used": {"pods": "0"}}
        api.patch(f"{QUOTAS}/q/status", {"status": status})
        assert api.get(f"{QUOTAS}/q")["status"] == status
        api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "2"}}, "status": {"used": {"pods": "7"}}})
        assert api.get(f"{QUOTAS}/q")["status"] == status


class TestOthers:
    def test_a_new_node_takes_no_pods(self, api):
        made = api.create(NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
        assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        assert made["status"]["capacity"] == {"cpu": "4"}

    def test_a_pod_makes_up_no_overhead(self, api):
        code, answer = api.ask("POST", PODS, pod(overhead={"cpu": "1"}))
        assert (code, answer["reason"]) == (403, "Forbidden")
        assert answer["message"].endswith("Pod Overhead set without corresponding RuntimeClass defined Overhead")
        heavy = {"metadata": {"name": "heavy"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1"}}}
        api.create("/apis/node.k8s.io/v1/runtimeclasses", heavy)
        api.create(PODS, pod(overhead={"cpu": "1"}, runtimeClassName="heavy"))

    def test_the_text_of_a_secret_becomes_data(self, api):
        made = api.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
        assert (made["data"], made["type"]) == ({"a": "Yg=="}, "Opaque")
        assert "stringData" not in made

    @pytest.mark.parametrize(("path", "member"), [(MAPS, "data"), (SECRETS, "data")])
    def test_what_is_immutable_stays(self, api, path, member):
        api.create(path, {"metadata": {"name": "m"}, "immutable": True, "data": {"a": "Yg=="}})
        refusal = api.refusal(
            "PATCH", f"{path}/m", {"data": {"a": "Yw=="}}, content_type="application/merge-patch+json"
        )
        assert refusal == (422, "Invalid", [member])

    def test_leases_are_checked(self, api):
        body = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}
        refusal = api.refusal("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", body)
        assert refusal[2] == ["spec.leaseDurationSeconds", "spec.leaseTransitions"]


def test_a_pod_keeps_the_tolerations_it_was_given_when_its_author_writes_others(api):
    made = api.create(PODS, pod("p"))
    given = made["spec"]["tolerations"]
    assert {each["key"] for each in given} == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    mine = {"key": "mine", "operator": "Exists"}
    code, changed = api.ask("PUT", f"{PODS}/p", {**made, "spec": {**made["spec"], "tolerations": [mine]}})
    assert code == 200, changed
    assert changed["spec"]["tolerations"] == [mine, *given]
    assert changed["metadata"]["generation"] == 2
