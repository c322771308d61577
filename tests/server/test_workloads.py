"""ReplicaSets, Deployments and ReplicationControllers as clients see them: defaults, generations, scale, deletion."""

import pytest

from tests.server.api import MERGE, STRATEGIC

BOTH_FORMS = True
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
CONTROLLERS = "/api/v1/namespaces/default/replicationcontrollers"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "m", "image": "nginx"}]}}


def workload(selector, **spec):
    return {"metadata": {"name": "w"}, "spec": {"selector": selector, "template": TEMPLATE, **spec}}


LABELS = {"matchLabels": {"app": "web"}}
KINDS = [(DEPLOYMENTS, LABELS), (REPLICA_SETS, LABELS), (CONTROLLERS, {"app": "web"})]


def test_a_deployment_gets_its_defaults(api):
    spec = api.create(DEPLOYMENTS, workload(LABELS))["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_a_replication_controller_takes_the_labels_of_its_template(api):
    made = api.create(CONTROLLERS, {"metadata": {"name": "w"}, "spec": {"template": TEMPLATE}})
    assert made["spec"]["selector"] == made["metadata"]["labels"] == {"app": "web"}


def test_the_generation_of_a_deployment_counts_its_annotations_too(api):
    assert api.create(DEPLOYMENTS, workload(LABELS))["metadata"]["generation"] == 1
    change = {"metadata": {"annotations": {"kubernetes.io/change-cause": "because"}}}
    assert api.patch(f"{DEPLOYMENTS}/w", change)["metadata"]["generation"] == 2
    assert api.patch(f"{DEPLOYMENTS}/w", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 2
    assert api.patch(f"{DEPLOYMENTS}/w/status", {"status": {"replicas": 1}})["metadata"]["generation"] == 2


def test_a_pod_template_counts_its_changes(api):
    api.create(TEMPLATES, {"metadata": {"name": "t"}, "template": TEMPLATE})
    change = {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}
    assert api.patch(f"{TEMPLATES}/t", change)["metadata"]["generation"] == 2


@pytest.mark.parametrize(("place", "selector"), KINDS, ids=["Deployment", "ReplicaSet", "ReplicationController"])
def test_scale(api, place, selector):
    made = api.create(place, workload(selector, replicas=2))
    scale = api.get(f"{place}/w/scale")
    assert (scale["apiVersion"], scale["kind"], scale["spec"]) == ("autoscaling/v1", "Scale", {"replicas": 2})
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert api.put(f"{place}/w/scale", {**scale, "spec": {"replicas": 5}})["spec"] == {"replicas": 5}
    # What was read is no longer there.
    assert api.refusal("PUT", f"{place}/w/scale", scale)[0] == 409
    for form in (MERGE, STRATEGIC):
        assert api.patch(f"{place}/w/scale", {"spec": {"replicas": 7}}, form)["spec"] == {"replicas": 7}
    found = api.get(f"{place}/w")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (7, 3)
    code, reason, *_ = api.refusal("PATCH", f"{place}/w/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
    assert (code, reason) == (422, "Invalid")


def test_who_scaled_owns_the_number_of_replicas_through_scale(api):
    api.create(f"{DEPLOYMENTS}?fieldManager=me", workload(LABELS, replicas=2))
    api.patch(f"{DEPLOYMENTS}/w/scale?fieldManager=scaler", {"spec": {"replicas": 3}})
    entries = {each["manager"]: each for each in api.get(f"{DEPLOYMENTS}/w")["metadata"]["managedFields"]}
    assert entries["scaler"]["subresource"] == "scale"
    assert entries["scaler"]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in entries["me"]["fieldsV1"]["f:spec"]


def test_pods_of_a_replication_controller_outlive_it_unless_somebody_says_otherwise(api):
    for query, finalizers in (("", ["orphan"]), ("?propagationPolicy=Background", None)):
        api.create(CONTROLLERS, workload({"app": "web"}))
        answer = api.delete(f"{CONTROLLERS}/w{query}")
        if finalizers:
            assert api.get(f"{CONTROLLERS}/w")["metadata"]["finalizers"] == finalizers
            api.patch(f"{CONTROLLERS}/w", {"metadata": {"finalizers": None}})
        assert answer["kind"] in ("Status", "ReplicationController")
    assert api.get(CONTROLLERS)["items"] == []


def test_tables(api):
    api.create(DEPLOYMENTS, workload(LABELS, replicas=3))
    table = api.get(DEPLOYMENTS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"]
    assert table["rows"][0]["cells"][:4] == ["w", "0/3", 0, 0]
    assert table["rows"][0]["cells"][5:] == ["m", "nginx", "app=web"]
