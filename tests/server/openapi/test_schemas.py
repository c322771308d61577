"""What the documents say of the built-in kinds."""

import msgspec

from dray.server import list_types


def schemas(api, place):
    return api.get(f"/openapi/v3/{place}")["components"]["schemas"]


def empty(value):
    """Whether there is a list or map in it that a client would read back as none."""
    if isinstance(value, dict):
        return any(
            (not inner and name in ("parameters", "properties", "required", "content")) or empty(inner)
            for name, inner in value.items()
        )
    return isinstance(value, list) and any(map(empty, value))


def test_every_reference_leads_somewhere(api):
    for place in api.get("/openapi/v3")["paths"]:
        document = api.get(f"/openapi/v3/{place}")
        known = document["components"]["schemas"]
        for part in msgspec.json.encode(document).decode().split('"#/components/schemas/')[1:]:
            assert part.partition('"')[0] in known
        assert not empty(document), place
    document = api.get("/openapi/v2")
    for part in msgspec.json.encode(document).decode().split('"#/definitions/')[1:]:
        assert part.partition('"')[0] in document["definitions"]


def test_operations_have_names_of_their_own(api):
    names = [
        operation["operationId"]
        for item in api.get("/openapi/v2")["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))
    assert {
        "deleteAppsV1CollectionNamespacedDeployment",
        "listRbacAuthorizationV1ClusterRole",
        "connectCoreV1GetNamespacedPodExec",
    } <= set(names)


def test_what_kubectl_looks_for(api):
    document = api.get("/openapi/v3/apis/resource.k8s.io/v1")
    schema = document["components"]["schemas"]["io.k8s.api.resource.v1.ResourceClaim"]
    assert schema["x-kubernetes-group-version-kind"][0]["kind"] == "ResourceClaim"
    assert "describes a request" in schema["description"].lower() or schema["description"]
    path = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
    names = [parameter["name"] for parameter in document["paths"][path]["patch"]["parameters"]]
    assert {"dryRun", "fieldValidation"} <= set(names)


def test_how_values_merge(api):
    core = schemas(api, "api/v1")
    pod_spec = core["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert pod_spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert pod_spec["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert pod_spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert pod_spec["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    assert core["io.k8s.api.core.v1.SecretReference"]["x-kubernetes-map-type"] == "atomic"
    claim_ref = core["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["claimRef"]
    assert claim_ref["x-kubernetes-map-type"] == "granular"
    webhooks = schemas(api, "apis/admissionregistration.k8s.io/v1")[
        "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration"
    ]["properties"]["webhooks"]
    assert webhooks["x-kubernetes-list-map-keys"] == ["name"]
    assert all(path.partition(".")[0].islower() for path in list_types.KEYED)


def test_defaults(api):
    port = schemas(api, "api/v1")["io.k8s.api.core.v1.ContainerPort"]["properties"]
    assert (port["protocol"]["default"], port["containerPort"]["default"], "default" in port["name"]) == (
        "TCP",
        0,
        False,
    )
    pod = schemas(api, "api/v1")["io.k8s.api.core.v1.Pod"]["properties"]
    assert pod["spec"]["default"] == {}


def test_the_older_form_has_all_in_one(api):
    document = api.get("/openapi/v2")
    assert document["swagger"] == "2.0"
    known = document["definitions"]
    claim_spec = known["io.k8s.api.resource.v1.ResourceClaim"]["properties"]["spec"]
    assert claim_spec["$ref"] == "#/definitions/io.k8s.api.resource.v1.ResourceClaimSpec"
    assert known["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] == {"format": "int-or-string", "type": "string"}
    post = document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"]
    assert post["parameters"][-1]["schema"]["$ref"] == "#/definitions/io.k8s.api.core.v1.Pod"
    kinds = known["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"]
    assert {("", "v1"), ("apps", "v1"), ("resource.k8s.io", "v1beta1")} <= {
        (kind["group"], kind["version"]) for kind in kinds
    }
    assert "default" not in known["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]


def test_subresources_have_their_own_kinds(api):
    paths = api.get("/openapi/v3/api/v1")["paths"]
    for part, kind in (("eviction", "policy.v1.Eviction"), ("binding", "core.v1.Binding")):
        post = paths[f"/api/v1/namespaces/{{namespace}}/pods/{{name}}/{part}"]["post"]
        assert post["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith(kind)
    scale = api.get("/openapi/v3/apis/apps/v1")["paths"][
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
    ]
    assert scale["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("v1.Scale")
