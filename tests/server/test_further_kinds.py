"""Kinds of certificates, leases, autoscaling/v1 and migrations, and those that are answered without being stored."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from dray.server.authorization import AUTHENTICATED, User
from tests.server.api import PODS, TABLE, pod

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
BUNDLES = "/apis/certificates.k8s.io/v1/clustertrustbundles"
REQUESTS = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"
CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
KEY = ec.generate_private_key(ec.SECP256R1())


def autoscaler(**spec):
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    return {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec}}


def certificate(start, *, authority=False, hours=2, key=KEY):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(hours=hours))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    return made.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def bundle(text, name="x", **spec):
    return {"metadata": {"name": name}, "spec": {"trustBundle": text, **spec}}


def request(**spec):
    stub = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(KEY, hashes.SHA256())
    given = {
        "signerName": "example.com/pods",
        "podName": "p",
        "podUID": "1",
        "serviceAccountName": "default",
        "serviceAccountUID": "2",
        "nodeName": "n",
        "nodeUID": "3",
        "maxExpirationSeconds": 86400,
        "stubPKCS10Request": base64.b64encode(stub.public_bytes(Encoding.DER)).decode(),
    }
    return {"metadata": {"name": "x"}, "spec": {**given, **spec}}


def test_an_autoscaler_of_v1_is_one_of_v2(api):
    made = api.create(V1, autoscaler(targetCPUUtilizationPercentage=60))
    assert made["apiVersion"] == "autoscaling/v1"
    assert made["spec"]["minReplicas"] == 1
    assert api.get(f"{V2}/web")["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
    api.patch(f"{V2}/web", {"spec": {"behavior": {"scaleUp": {"selectPolicy": "Min"}}}})
    assert len(api.get(f"{V2}/web")["spec"]["behavior"]["scaleUp"]["policies"]) == 2
    api.patch(f"{V1}/web", {"spec": {"targetCPUUtilizationPercentage": 70}})
    new = api.get(f"{V2}/web")
    assert new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    assert new["spec"]["behavior"]["scaleUp"]["selectPolicy"] == "Min"
    assert "annotations" not in new["metadata"]
    [listed] = api.get(V1)["items"]
    assert listed["spec"]["targetCPUUtilizationPercentage"] == 70


def test_without_a_number_an_autoscaler_of_v1_aims_at_the_usual_one(api):
    assert api.create(V1, autoscaler())["spec"]["targetCPUUtilizationPercentage"] == 80


def test_a_trust_bundle_holds_authorities_and_is_named_after_its_signer(api):
    good, leaf = certificate(datetime.now(UTC), authority=True), certificate(datetime.now(UTC))
    api.create(BUNDLES, bundle(good))
    api.create(BUNDLES, bundle(good, "example.com:pods:x", signerName="example.com/pods"))
    for wrong, why in (
        (bundle(leaf, "y"), "entry 0 does not have the CA bit set"),
        (bundle(good * 2, "y"), "duplicate trust anchor (indices [0 1])"),
        (bundle("nothing", "y"), "at least one trust anchor must be provided"),
        (bundle(good, "y", signerName="example.com/pods"), "must be named with prefix example.com:pods:"),
        (bundle(good, "a:b"), 'must not have ":" in its name'),
    ):
        code, answer = api.ask("POST", BUNDLES, wrong)
        assert (code, why in answer["message"]) == (422, True), answer
    assert [row["cells"] for row in api.get(BUNDLES, accept=TABLE)["rows"]] == [
        ["example.com:pods:x", "example.com/pods"],
        ["x", "<none>"],
    ]


def test_a_trust_bundle_of_a_signer_is_attested(api):
    rule = {"verbs": ["create"], "apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"]}
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "m"}, "rules": [rule]})
    api.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "m"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mia"}],
        },
    )
    api.user = User("mia", (AUTHENTICATED,))
    good = certificate(datetime.now(UTC), authority=True)
    code, answer = api.ask("POST", BUNDLES, bundle(good, "example.com:pods:x", signerName="example.com/pods"))
    assert (code, 'not permitted to attest for signerName "example.com/pods"' in answer["message"]) == (403, True), (
        answer
    )
    assert api.ask("POST", BUNDLES, bundle(good))[0] == 201


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"maxExpirationSeconds": 60}, "must be in the range [3600, 7862400]"),
        ({"signerName": "kubernetes.io/x", "maxExpirationSeconds": 90000}, "must be in the range [3600, 86400]"),
        ({"stubPKCS10Request": "AAAA"}, "must be a valid PKCS#10 CSR"),
        ({"podUID": ""}, "must not be empty"),
    ],
)
def test_what_a_request_for_a_pod_must_have(api, spec, why):
    code, answer = api.ask("POST", REQUESTS, request(**spec))
    assert (code, why in answer["message"]) == (422, True), answer


def test_a_request_for_a_pod_is_answered_once_with_a_certificate_of_its_key(api):
    api.create(REQUESTS, request())
    start = datetime.now(UTC).replace(microsecond=0)

    def issued(chain, refresh=30):
        moments = {
            "notBefore": start,
            "notAfter": start + timedelta(hours=2),
            "beginRefreshAt": start + timedelta(minutes=refresh),
        }
        condition = {
            "type": "Issued",
            "status": "True",
            "reason": "Issued",
            "message": "",
            "lastTransitionTime": now(start),
        }
        return {
            "status": {"conditions": [condition], "certificateChain": chain, **{k: now(v) for k, v in moments.items()}}
        }

    other = certificate(start, key=ec.generate_private_key(ec.SECP256R1()))
    for wrong, why in (
        (issued(other), "was not issued to the requested public key"),
        (issued(certificate(start), refresh=1), "at least 10 minutes after"),
        (issued("nothing"), "must contain at least one certificate"),
        ({"status": {"certificateChain": "x"}}, "status is immutable unless transitioning"),
    ):
        code, answer = api.ask("PATCH", f"{REQUESTS}/x/status", wrong, content_type="application/merge-patch+json")
        assert (code, why in answer["message"]) == (422, True), answer
    api.patch(f"{REQUESTS}/x/status", issued(certificate(start)))
    assert api.get(REQUESTS, accept=TABLE)["rows"][0]["cells"][5] == "Issued"
    code, answer = api.ask(
        "PATCH", f"{REQUESTS}/x/status", {"status": {"conditions": None}}, content_type="application/merge-patch+json"
    )
    assert (code, "immutable after PodCertificateRequest is issued" in answer["message"]) == (422, True), answer


def now(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_candidates_of_leases(api):
    spec = {
        "leaseName": "l",
        "binaryVersion": "1.37.0",
        "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    }
    api.create(CANDIDATES, {"metadata": {"name": "x"}, "spec": spec})
    code, answer = api.ask("POST", CANDIDATES, {"metadata": {"name": "y"}, "spec": {**spec, "binaryVersion": "1.35.0"}})
    assert (code, "must be greater than or equal to `emulationVersion`" in answer["message"]) == (422, True), answer


def test_a_migration_names_one_resource_for_good(api):
    api.create(
        MIGRATIONS, {"metadata": {"name": "x"}, "spec": {"resource": {"group": "apps", "resource": "deployments"}}}
    )
    code, answer = api.ask(
        "PATCH",
        f"{MIGRATIONS}/x",
        {"spec": {"resource": {"resource": "statefulsets"}}},
        content_type="application/merge-patch+json",
    )
    assert (code, "field is immutable" in answer["message"]) == (422, True), answer
    assert api.get(MIGRATIONS, accept=TABLE)["rows"][0]["cells"] == ["x", "deployments.apps", "Unknown"]


def test_component_statuses_tell_who_holds_a_lease(api):
    statuses = {each["metadata"]["name"]: each for each in api.get("/api/v1/componentstatuses")["items"]}
    assert statuses.keys() == {"scheduler", "controller-manager", "etcd-0"}
    assert statuses["etcd-0"]["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    told = statuses["scheduler"]["conditions"][0]
    assert told["status"] == "False"
    assert "no component holds the Lease kube-system/kube-scheduler" in told["message"]
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": moment}
    api.create(LEASES, {"metadata": {"name": "kube-scheduler"}, "spec": spec})
    assert api.get("/api/v1/componentstatuses/scheduler")["conditions"][0]["status"] == "True"
    assert api.get("/api/v1/componentstatuses", accept=TABLE)["rows"][0]["cells"] == ["scheduler", "Healthy", "ok", ""]
    assert api.ask("GET", "/api/v1/componentstatuses/nothing")[0] == 404
    assert api.ask("DELETE", "/api/v1/componentstatuses/scheduler")[0] == 405


def test_a_pod_is_bound_by_a_binding_in_its_namespace(api):
    api.create(PODS, pod())
    name = pod()["metadata"]["name"]
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
    assert api.ask("POST", "/api/v1/namespaces/default/bindings", body)[0] == 201
    assert api.get(f"{PODS}/{name}")["spec"]["nodeName"] == "n"
    assert api.ask("GET", "/api/v1/namespaces/default/bindings")[0] == 405


def test_namespaces_are_deleted_one_by_one(api):
    assert api.ask("DELETE", "/api/v1/namespaces")[0] == 405
