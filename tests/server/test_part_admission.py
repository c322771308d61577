"""Admission of subresources: rules name them, and policies and webhooks see what each of them takes."""

import pytest

from tests.server.api import APPLY, NODES, PODS, pod
from tests.server.hooks import GROUP, patch

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
DENY = {"allowed": False, "status": {"message": "no", "code": 403}}


def rule(*resources, group="", operations=("*",)):
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": list(operations), "resources": list(resources)}


def deployment(name="d"):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def bind(name="p", **binding):
    return ("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n"}, **binding})


def asked(hooks, part):
    return next(each for each in hooks.asked if each.get("subResource") == part)


@pytest.fixture
def there(hooks):
    api = hooks.api
    api.create(NODES, {"metadata": {"name": "n"}})
    api.create(PODS, pod())
    api.create(DEPLOYMENTS, deployment())
    return hooks


CASES = {
    "binding": (bind(), "CREATE", ("", "v1", "Binding")),
    "eviction": (("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}), "CREATE", ("policy", "v1", "Eviction")),
    "exec": (("POST", f"{PODS}/p/exec?command=a&stdout=1", None), "CONNECT", ("", "v1", "PodExecOptions")),
    "attach": (("POST", f"{PODS}/p/attach?stdin=1", None), "CONNECT", ("", "v1", "PodAttachOptions")),
    "portforward": (("POST", f"{PODS}/p/portforward?ports=80", None), "CONNECT", ("", "v1", "PodPortForwardOptions")),
    "status": (("PATCH", f"{PODS}/p/status", {"status": {"message": "m"}}), "UPDATE", ("", "v1", "Pod")),
    "ephemeralcontainers": (
        ("PATCH", f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}),
        "UPDATE",
        ("", "v1", "Pod"),
    ),
}


@pytest.mark.parametrize("part", CASES)
def test_pods_parts_are_asked_about_by_their_names(there, part):
    (method, path, body), operation, kind = CASES[part]
    there.add("validating", "other", lambda request: DENY, rules=[rule("pods", "pods/log", "services/*")])
    there.add("validating", "deny", lambda request: DENY, rules=[rule(f"pods/{part}", operations=[operation])])
    media = {"content_type": "application/merge-patch+json"} if method == "PATCH" else {}
    code, refused = there.api.ask(method, path, body, **media)
    assert (code, refused["message"]) == (403, 'admission webhook "deny.example.com" denied the request: no')
    request = asked(there, part)
    assert (request["operation"], request["name"], request["namespace"]) == (operation, "p", "default")
    assert tuple(request["kind"].values()) == kind
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["object"]["kind"], request["requestSubResource"]) == (kind[2], part)
    assert (request["options"] is None) == (operation == "CONNECT")


def test_options_of_connections_are_told_and_may_be_changed(there):
    rules = [rule("pods/exec", operations=["CONNECT"])]
    other = patch({"op": "replace", "path": "/container", "value": "other"})
    there.add("mutating", "change", lambda request: other, rules=rules)
    code, refused = there.api.ask("POST", f"{PODS}/p/exec?command=a&command=b&stdout=1&container=main")
    assert (code, refused["message"]) == (400, "container other is not valid for pod p")
    options = asked(there, "exec")["object"]
    assert (options["command"], options["container"], options["stdout"]) == (["a", "b"], "main", True)
    there.api.ask("GET", "/api/v1/nodes/n/proxy/healthz")
    assert there.api.refusal("POST", f"{PODS}/p/portforward?ports=80,a")[0] == 400
    there.add("validating", "node", lambda request: DENY, rules=[rule("nodes/proxy")])
    assert there.api.refusal("GET", "/api/v1/nodes/n/proxy/healthz")[0] == 403
    assert asked(there, "proxy")["object"] == {"kind": "NodeProxyOptions", "apiVersion": "v1", "path": "/healthz"}


def test_options_are_no_objects_that_a_selector_means(there):
    there.add(
        "validating",
        "deny",
        lambda request: DENY,
        rules=[rule("pods/exec")],
        objectSelector={"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
    )
    assert there.api.refusal("POST", f"{PODS}/p/exec?command=a&stdout=1")[0] == 400
    assert there.asked == []


def test_a_binding_may_be_changed(there):
    there.api.create(NODES, {"metadata": {"name": "m"}})
    there.api.create(PODS, pod("q"))
    rules = [rule("pods/binding")]
    there.add(
        "mutating", "to-m", lambda request: patch({"op": "replace", "path": "/target/name", "value": "m"}), rules=rules
    )
    assert there.api.ask(*bind("q"))[0] == 201
    assert there.api.get(f"{PODS}/q")["spec"]["nodeName"] == "m"


def test_an_eviction_is_no_deletion_to_policies(there):
    there.add("validating", "keep", lambda request: DENY, rules=[rule("pods", operations=["DELETE"])])
    assert there.api.refusal("DELETE", f"{PODS}/p")[0] == 403
    assert there.api.ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})[0] == 201
    assert there.api.ask("GET", f"{PODS}/p")[0] == 404


def test_token_requests(there):
    short = patch({"op": "replace", "path": "/spec/expirationSeconds", "value": 600})
    there.add("mutating", "short", lambda request: short, rules=[rule("serviceaccounts/token")])
    made = there.api.create(f"{ACCOUNTS}/default/token", {"spec": {"audiences": ["a"]}})
    assert made["spec"]["expirationSeconds"] == 600
    request = asked(there, "token")
    assert request["kind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
    assert request["object"]["spec"] == {"audiences": ["a"], "expirationSeconds": 3600, "boundObjectRef": None}


def test_a_scale_is_seen_and_changed_as_one(there):
    there.api.create(
        f"{GROUP}/validatingadmissionpolicies",
        {
            "metadata": {"name": "few"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule("deployments/scale", group="apps")]},
                "validations": [
                    {"expression": "object.kind == 'Scale' && object.spec.replicas <= oldObject.spec.replicas + 5"}
                ],
            },
        },
    )
    bound = {"policyName": "few", "validationActions": ["Deny"]}
    there.api.create(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})
    assert there.api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 6}})["spec"]["replicas"] == 6
    media = {"content_type": "application/merge-patch+json"}
    assert there.api.ask("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 60}}, **media)[0] == 422
    rules = [rule("deployments/scale", group="apps")]
    double = patch({"op": "replace", "path": "/spec/replicas", "value": 8})
    there.add("mutating", "double", lambda request: double, rules=rules)
    assert there.api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 7}})["spec"]["replicas"] == 8
    request = asked(there, "scale")
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 7}, {"replicas": 6})
    assert there.api.get(f"{DEPLOYMENTS}/d")["spec"]["replicas"] == 8


def test_what_is_added_to_a_running_pod_may_be_changed(there):
    image = patch({"op": "replace", "path": "/spec/ephemeralContainers/0/image", "value": "y"})
    there.add("mutating", "image", lambda request: image, rules=[rule("pods/ephemeralcontainers")])
    (_, path, body), _, _ = CASES["ephemeralcontainers"]
    changed = there.api.patch(path, body)
    assert changed["spec"]["ephemeralContainers"][0]["image"] == "y"
    stale = {**changed, "metadata": {**changed["metadata"], "resourceVersion": "1"}}
    assert there.api.refusal("PUT", path, stale)[0] == 409


def test_resources_of_a_running_pod(there):
    there.add("validating", "deny", lambda request: DENY, rules=[rule("pods/resize")])
    container = {"name": "r", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    there.api.create(PODS, pod("r", containers=[container]))
    resized = {"spec": {"containers": [{**container, "resources": {"requests": {"cpu": "2"}}}]}}
    media = {"content_type": "application/merge-patch+json"}
    assert there.api.ask("PATCH", f"{PODS}/r/resize", resized, **media)[0] == 403
    request = asked(there, "resize")
    assert [request[each]["spec"]["containers"][0]["resources"]["requests"] for each in ("oldObject", "object")] == [
        {"cpu": "1"},
        {"cpu": "2"},
    ]


def test_finalizers_of_namespaces(there):
    there.add("validating", "deny", lambda request: DENY, rules=[rule("namespaces/finalize")])
    assert there.api.refusal("PUT", "/api/v1/namespaces/default/finalize", {"spec": {"finalizers": []}})[0] == 403
    assert asked(there, "finalize")["object"]["kind"] == "Namespace"


def test_applied_scales(there):
    api, where = there.api, f"{DEPLOYMENTS}/d/scale"
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 3}}
    assert api.refusal("PATCH", where, scale, content_type=APPLY)[0] == 422
    assert api.refusal("PATCH", f"{where}?fieldManager=a", {**scale, "kind": "X"}, content_type=APPLY)[0] == 400
    # Whoever made the deployment owns its replicas, by default or not.
    assert api.refusal("PATCH", f"{where}?fieldManager=a", scale, content_type=APPLY)[0] == 409
    assert api.patch(f"{where}?fieldManager=a&force=true", scale, APPLY)["spec"] == {"replicas": 3}
    owners = {each["manager"]: each for each in api.get(f"{DEPLOYMENTS}/d")["metadata"]["managedFields"]}
    assert (owners["a"]["operation"], owners["a"]["subresource"]) == ("Apply", "scale")
    assert (owners["a"]["apiVersion"], owners["a"]["fieldsV1"]) == ("apps/v1", {"f:spec": {"f:replicas": {}}})
    assert "f:replicas" not in owners[""]["fieldsV1"]["f:spec"]
    more = {**scale, "spec": {"replicas": 4}}
    assert api.refusal("PATCH", f"{where}?fieldManager=b", more, content_type=APPLY)[0] == 409
    # An update takes the replicas from whoever applied them.
    api.patch(f"{where}?fieldManager=c", {"spec": {"replicas": 5}})
    owners = {each["manager"]: each for each in api.get(f"{DEPLOYMENTS}/d")["metadata"]["managedFields"]}
    assert "a" not in owners
    assert (owners["c"]["operation"], owners["c"]["subresource"]) == ("Update", "scale")
    assert api.refusal("PATCH", where.replace("/d/", "/x/") + "?fieldManager=a", scale, content_type=APPLY)[0] == 404
