"""Kinds of storage, networks, runtime classes and flow control as clients meet them."""

import pytest

from dray.api import catalogue
from tests.api.validation.test_cluster_kinds import (
    AUTOSCALER,
    CLAIM,
    EVERY,
    FLOW,
    INGRESS,
    POLICY,
    RUNTIME,
    STORAGE_CLASS,
    VOLUME,
)
from tests.server.api import APPLY, PODS, TABLE, pod

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"


def path_of(obj):
    kind = catalogue.built_in(obj["apiVersion"], obj["kind"])
    root = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


@pytest.mark.parametrize("obj", EVERY, ids=lambda obj: obj["kind"])
def test_every_kind_is_made_shown_and_deleted(api, obj):
    kind = catalogue.built_in(obj["apiVersion"], obj["kind"])
    path = path_of(obj)
    api.create(path, obj)
    assert (kind.entry.stored_only in api.warnings) is bool(kind.entry.stored_only)
    table = api.get(path, accept=TABLE)
    widths = {len(row["cells"]) for row in table["rows"]}
    assert widths == {len(table["columnDefinitions"])}
    api.delete(f"{path}/{obj['metadata']['name']}")


def test_a_stored_kind_says_in_one_sentence_that_nothing_acts_on_it(api):
    api.create(path_of(POLICY), POLICY)
    assert api.warnings == ["NetworkPolicy is stored and not enforced: traffic of pods is not filtered"]
    api.patch(f"{path_of(POLICY)}/x", {"metadata": {"labels": {"a": "b"}}})
    assert len(api.warnings) == 1
    api.get(f"{path_of(POLICY)}/x")
    assert api.warnings == []


def test_the_status_of_a_stored_kind_is_written_without_a_warning(api):
    api.create(path_of(AUTOSCALER), AUTOSCALER)
    api.patch(f"{path_of(AUTOSCALER)}/x/status", {"status": {"desiredReplicas": 2}})
    assert api.warnings == []


def test_the_status_of_older_kinds_may_bring_annotations_and_that_of_flow_control_not(api):
    note = {"metadata": {"annotations": {"patched": "yes"}}}
    for obj, kept in ((INGRESS, True), (AUTOSCALER, True), (FLOW, False)):
        api.create(path_of(obj), obj)
        patched = api.patch(f"{path_of(obj)}/x/status", note)
        assert ("annotations" in patched["metadata"]) is kept


def test_a_claim_gets_the_default_class_and_is_protected(api):
    api.create(CLASSES, STORAGE_CLASS)
    assert "storageClassName" not in api.create(CLAIMS, CLAIM)["spec"]
    default = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    api.create(CLASSES, {**STORAGE_CLASS, "metadata": default})
    made = api.create(CLAIMS, {**CLAIM, "metadata": {"name": "c"}})
    assert made["spec"]["storageClassName"] == "fast"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert api.create(VOLUMES, VOLUME)["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert api.get(CLASSES, accept=TABLE)["rows"][0]["cells"][0] == "fast (default)"


def test_a_pod_takes_overhead_selector_and_tolerations_from_its_runtime_class(api):
    scheduling = {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]}
    api.create(RUNTIMES, {**RUNTIME, "scheduling": scheduling})
    spec = api.create(PODS, pod("p", runtimeClassName="x"))["spec"]
    assert spec["overhead"] == {"cpu": "100m"}
    assert spec["nodeSelector"] == {"vm": "yes"}
    assert {"key": "vm", "operator": "Exists"} in spec["tolerations"]
    for wrong in (
        pod("q", runtimeClassName="unknown"),
        pod("q", runtimeClassName="x", overhead={"cpu": "1"}),
        pod("q", runtimeClassName="x", nodeSelector={"vm": "no"}),
    ):
        assert api.refusal("POST", PODS, wrong)[:2] == (403, "Forbidden")


def test_an_ingress_gets_the_default_class(api):
    annotations = {"ingressclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": "front", "annotations": annotations}, "spec": {"controller": "example.com/c"}}
    api.create("/apis/networking.k8s.io/v1/ingressclasses", body)
    assert api.create(path_of(INGRESS), INGRESS)["spec"]["ingressClassName"] == "front"


def test_the_lower_name_wins_between_default_classes_of_the_same_second(api):
    classes = "/apis/networking.k8s.io/v1/ingressclasses"
    for name in ("zz2", "zz1"):
        ingress = {"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
        api.create(classes, {"metadata": ingress, "spec": {"controller": "example.com/c"}})
        storage = {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        api.create(CLASSES, {**STORAGE_CLASS, "metadata": storage})
    assert api.create(path_of(INGRESS), INGRESS)["spec"]["ingressClassName"] == "zz1"
    assert api.create(CLAIMS, CLAIM)["spec"]["storageClassName"] == "zz1"


def test_mandatory_objects_and_served_versions_are_there(api):
    for plural in ("flowschemas", "prioritylevelconfigurations"):
        found = api.get(f"/apis/flowcontrol.apiserver.k8s.io/v1/{plural}")["items"]
        assert {each["metadata"]["name"] for each in found} >= {"exempt", "catch-all"}
    services = {
        each["metadata"]["name"]: each for each in api.get("/apis/apiregistration.k8s.io/v1/apiservices")["items"]
    }
    assert services.keys() >= {"v1.", "v1.resource.k8s.io", "v1.storage.k8s.io"}
    assert services["v1."]["status"]["conditions"][0]["reason"] == "Local"
    groups = {group["name"] for group in api.get("/apis")["groups"]}
    assert groups >= {"storage.k8s.io", "networking.k8s.io", "discovery.k8s.io", "node.k8s.io", "autoscaling"}


def test_metrics_are_served_and_their_api_service_is_left_to_a_metrics_server(api):
    path, name = "/apis/apiregistration.k8s.io/v1/apiservices", "v1beta1.metrics.k8s.io"
    assert "metrics.k8s.io" in {group["name"] for group in api.get("/apis")["groups"]}
    service = {"name": "metrics-server", "namespace": "kube-system"}
    spec = {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100}
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {**spec, "service": service, "insecureSkipTLSVerify": True},
    }
    code, made = api.ask("PATCH", f"{path}/{name}?fieldManager=installer", body, content_type=APPLY)
    assert (code, made["spec"]["versionPriority"]) == (201, 100)


def test_endpoints_are_deprecated_in_words(api):
    api.get("/api/v1/namespaces/default/endpoints")
    assert api.warnings == ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
