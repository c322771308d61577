"""Discovery, OpenAPI, version, health and metrics."""

import asyncio

import msgspec
import pytest

from dray.api.gates import ALL_GATES
from dray.server.requests import Response
from tests.server.api import PODS, PROTOBUF, as_json, pod, serving

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class TestDiscovery:
    def test_groups(self, api):
        groups = {group["name"]: group for group in api.get("/apis")["groups"]}
        assert groups["resource.k8s.io"]["preferredVersion"]["version"] == "v1"
        assert [v["version"] for v in groups["resource.k8s.io"]["versions"]] == ["v1", "v1beta2", "v1beta1", "v1alpha3"]
        assert "authorization.k8s.io" in groups
        assert api.get("/api")["versions"] == ["v1"]

    def test_resources_of_a_version(self, api):
        resources = {item["name"]: item for item in api.get("/api/v1")["resources"]}
        assert resources["pods"]["shortNames"] == ["po"]
        assert resources["pods"]["categories"] == ["all"]
        assert resources["pods/binding"]["kind"] == "Binding"
        assert resources["pods/eviction"]["group"] == "policy"
        assert resources["pods/log"]["verbs"] == ["get"]

    @pytest.mark.parametrize(("path", "core"), [("/api", True), ("/apis", False)])
    def test_all_at_once(self, api, path, core):
        answer = api.raw("GET", path, accept=AGGREGATED)
        assert "as=APIGroupDiscoveryList" in answer.content_type
        items = msgspec.json.decode(answer.body)["items"]
        assert ("name" not in items[0]["metadata"]) is core
        assert all(version["resources"] for item in items for version in item["versions"])

    @pytest.mark.parametrize("path", ["/api", "/apis"])
    def test_all_at_once_in_every_form(self, api, path):
        suffix = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        expected = msgspec.json.decode(api.raw("GET", path, accept=AGGREGATED).body)
        # It is what such a client gets, wherever in the header it asks for it.
        answer = api.raw("GET", path, accept=f"application/json,{PROTOBUF}{suffix}")
        assert answer.content_type == f"{PROTOBUF}{suffix}"
        assert as_json(answer.body) == expected
        in_yaml = api.raw("GET", path, accept=f"application/yaml{suffix}")
        assert in_yaml.body.startswith(b"kind: APIGroupDiscoveryList")
        # The older version is gone, as in Kubernetes: such clients get the plain form.
        old = api.raw("GET", path, accept=AGGREGATED.replace("v=v2", "v=v2beta1"))
        assert old.content_type == "application/json"

    @pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"])
    def test_in_no_other_form(self, api, path):
        table = "application/json;as=Table;g=meta.k8s.io;v=v1"
        for accept in ("application/cbor", table, "text/html"):
            assert api.refusal("GET", path, accept=accept)[:2] == (406, "NotAcceptable")
        assert api.get(path, accept=f"{table}, application/json;q=0.1")["kind"].startswith("API")

    def test_what_a_client_has_is_not_sent_again(self, api):
        first = api.raw("GET", "/apis", accept=AGGREGATED)
        again = api.raw("GET", "/apis", accept=AGGREGATED, if_none_match=first.headers["ETag"])
        assert (again.code, again.body) == (304, b"")
        assert api.raw("GET", "/apis", accept=AGGREGATED, if_none_match='"x"').code == 200

    @pytest.mark.parametrize("path", ["/apis/none", "/apis/none/v1", "/apis/resource.k8s.io/v9", "/api/v9"])
    def test_what_is_not_served(self, api, path):
        assert api.refusal("GET", path)[0] == 404

    def test_gates_decide_on_kinds(self):
        with serving(gates=ALL_GATES.switched(GenericWorkload=False)) as api:
            plurals = {item["name"] for item in api.get("/apis/scheduling.k8s.io/v1alpha3")["resources"]}
            assert "podgroups" not in plurals
            assert api.ask("GET", "/apis/scheduling.k8s.io/v1beta1/podgroups")[0] == 404


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
def test_health(api, path):
    assert api.raw("GET", path).body == b"ok"
    assert b"check passed" in api.raw("GET", f"{path}?verbose=1").body


def test_health_checks_by_name(api):
    assert api.raw("GET", "/readyz/etcd").body == b"ok"
    assert api.raw("GET", "/readyz/nothing").code == 404
    assert b"[+]etcd excluded: ok" in api.raw("GET", "/readyz?verbose&exclude=etcd").body


def test_version(api):
    answer = api.raw("GET", "/version", accept="application/yaml")
    assert (answer.content_type, answer.body[:13]) == ("application/json", b'{\n  "major": ')
    assert (api.get("/version")["minor"], api.get("/version/")["major"]) == ("37", "1")


def test_nowhere(api):
    answer = api.raw("GET", "/nowhere")
    assert (answer.code, answer.content_type) == (404, "text/plain; charset=utf-8")
    assert api.raw("POST", "/version").code == 405


class TestReviews:
    access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    def test_who_may_do_what(self, api):
        spec = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
        assert api.create(self.access, {"spec": spec})["status"]["allowed"] is True

    def test_who_am_i(self, api):
        review = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert review["status"]["userInfo"]["username"] == "system:admin"

    @pytest.mark.parametrize("body", [{"spec": 5}, {"spec": {"resourceAttributes": 5}}, {"kind": "Pod"}])
    def test_what_cannot_be_read(self, api, body):
        assert api.ask("POST", self.access, body)[0] in (400, 422)

    def test_only_asked(self, api):
        assert api.ask("GET", self.access)[0] == 405


def test_somebody_without_rights_is_refused(api):
    from dray.server.authorization import AUTHENTICATED, User

    api.create(PODS, pod())
    api.user = User("joe", (AUTHENTICATED,))
    code, answer = api.ask("GET", f"{PODS}/p")
    assert code == 403
    assert answer["message"] == (
        'pods "p" is forbidden: User "joe" cannot get resource "pods" in API group "" in the namespace "default"'
    )
    assert api.ask("GET", "/metrics")[0] == 403
    assert isinstance(api.raw("GET", "/version"), Response)


def test_rights_can_be_given(api):
    from dray.server.authorization import ADMIN, AUTHENTICATED, User

    joe = User("joe", (AUTHENTICATED,))
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    api.create(f"{roles}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "joe-reads"},
        "roleRef": {"kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "joe"}],
    }
    assert api.create(f"{roles}/rolebindings", binding)["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    api.user = joe
    assert api.get(PODS)["kind"] == "PodList"
    assert api.ask("POST", PODS, pod())[0] == 403
    # Nobody can give more than they have.
    more = {"metadata": {"name": "more"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]}
    assert api.ask("POST", f"{roles}/roles", more)[0] == 403
    api.user = ADMIN
    api.delete(f"{roles}/rolebindings/joe-reads")
    api.user = joe
    assert api.ask("GET", PODS)[0] == 403


@pytest.mark.parametrize("check", ["healthz", "livez", "readyz"])
def test_checks_have_the_names_of_kubernetes(api, check):
    told = api.raw("GET", f"/{check}?verbose").body.decode().splitlines()
    hooks = """start-apiserver-admission-initializer generic-apiserver-start-informers start-apiextensions-informers
        start-apiextensions-controllers crd-informer-synced start-system-namespaces-controller
        start-service-ip-repair-controllers scheduling/bootstrap-system-priority-classes storage-readiness
        start-cluster-authentication-info-controller start-kube-aggregator-informers rbac/bootstrap-roles
        apiservice-registration-controller kube-apiserver-autoregistration apiservice-openapi-controller"""
    names = {"ping", "log", "etcd", "autoregister-completion", *(f"poststarthook/{hook}" for hook in hooks.split())}
    assert {f"[+]{name} ok" for name in names} <= set(told)
    assert ("[+]informer-sync ok" in told) is (check == "readyz")
    assert told[-1] == f"{check} check passed"


def test_a_hook_that_has_not_finished_is_told(api):
    api.context.health.expect("something")
    code, body = (answer := api.raw("GET", "/livez")).code, answer.body
    assert (code, b"[-]poststarthook/something failed: not finished" in body) == (500, True)
    api.context.health.finish("something")
    assert api.raw("GET", "/livez/poststarthook/something").body == b"ok"
    warned = api.raw("GET", "/livez?verbose&exclude=nothing").body
    assert b'warn: some health checks cannot be excluded: no matches for "nothing"' in warned


def test_checks_as_metrics(api):
    told = api.raw("GET", "/metrics/slis").body.decode()
    assert 'kubernetes_healthcheck{name="etcd",type="readyz"} 1.0' in told
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1.0' in told


def test_versions_of_custom_groups_have_an_api_service(api):
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
    }
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    assert eventually(api, lambda: api.ask("GET", f"{path}/v1.example.com")[0] == 200)
    assert api.raw("GET", "/readyz/autoregister-completion").code == 200
    # Whoever deletes one makes nobody believe that the server is ill.
    api.delete(f"{path}/v1.apps")
    assert api.raw("GET", "/readyz").code == 200
    assert eventually(api, lambda: api.ask("GET", f"{path}/v1.apps")[0] == 200)
    api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com")
    assert eventually(api, lambda: api.ask("GET", f"{path}/v1.example.com")[0] == 404)
    remote = {"name": "remote", "namespace": "default"}
    spec = {
        "group": "g.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
        "service": remote,
    }
    made = api.create(path, {"metadata": {"name": "v1.g.example.com"}, "spec": {**spec, "insecureSkipTLSVerify": True}})
    assert made["status"]["conditions"][0]["status"] == "False"


def eventually(api, holds):
    for _ in range(100):
        if holds():
            return True
        api.runner.run(asyncio.sleep(0.01))
    return False
