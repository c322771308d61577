"""CertificateSigningRequests: made by anybody for themselves, approved by those who may, signed by the server."""

from __future__ import annotations

import asyncio
import base64
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from dray.server import certificate_signer
from dray.server.authorization import AUTHENTICATED, User
from dray.server.security import certificates

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
CLIENT = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "Test"}
KEY = certificates.new_key()


def pem(name="system:node:n1", groups=("system:nodes",), hosts=(), key=KEY):
    builder = x509.CertificateSigningRequestBuilder().subject_name(certificates.subject(name, groups))
    if hosts:
        builder = builder.add_extension(certificates.alternative_names(hosts), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def request(name="r", signer=NODE_CLIENT, document=None, usages=("digital signature", "client auth"), **spec):
    encoded = base64.b64encode(document or pem()).decode()
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": encoded, "signerName": signer, "usages": list(usages), **spec},
    }


def approve(api, name="r"):
    obj = api.get(f"{PATH}/{name}")
    api.ask("PUT", f"{PATH}/{name}/approval", {**obj, "status": {"conditions": [APPROVED]}})
    for _ in range(50):
        # The signer works in turns of the loop that these requests give it.
        obj = api.get(f"{PATH}/{name}")
        if "certificate" in obj["status"] or len(obj["status"]["conditions"]) > 1:
            break
    return obj


def issued(obj):
    return x509.load_pem_x509_certificate(base64.b64decode(obj["status"]["certificate"]))


def test_an_approved_request_of_a_node_is_signed(api):
    api.create(PATH, request(expirationSeconds=3600))
    certificate = issued(approve(api))
    assert certificate.subject == certificates.subject("system:node:n1", ["system:nodes"])
    assert certificate.public_key() == KEY.public_key()
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(minutes=58) < left <= timedelta(hours=1)
    authority = x509.load_pem_x509_certificate(api.context.security.node_authority.certificate)
    assert certificates.is_issued_by(certificate, authority)


def test_who_asked_is_what_the_server_knows(api):
    api.user = User("jane", ("devs", AUTHENTICATED, "system:masters"), "u1", {"scopes": ("a",)})
    made = api.create(PATH, request(username="system:node:n1", groups=["system:nodes"], uid="forged"))
    spec = made["spec"]
    assert (spec["username"], spec["uid"], spec["extra"]) == ("jane", "u1", {"scopes": ["a"]})
    assert spec["groups"] == ["devs", AUTHENTICATED, "system:masters"]
    code, changed = api.ask("PUT", f"{PATH}/r", {**made, "spec": {**spec, "username": "x", "signerName": CLIENT}})
    assert code == 200
    assert changed["spec"] == spec


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (request(document=b"nonsense"), "spec.request"),
        (request(document=pem()[:-60] + pem()[-40:]), "spec.request"),
        (request(usages=()), "spec.usages"),
        (request(usages=("client auth", "flying")), "spec.usages[1]"),
        (request(usages=("client auth", "client auth")), "spec.usages[1]"),
        (request(signer=""), "spec.signerName"),
        (request(signer="nodomain"), "spec.signerName"),
        (request(signer="kubernetes.io/legacy-unknown"), "spec.signerName"),
        (request(signer="example.com/a/b"), "spec.signerName"),
        (request(expirationSeconds=599), "spec.expirationSeconds"),
    ],
)
def test_what_is_refused(api, made, field):
    code, answer = api.ask("POST", PATH, made)
    assert code == 422, answer
    assert [each["field"] for each in answer["details"]["causes"]] == [field]


def test_the_administrators_group_cannot_be_asked_for(api):
    asked = request(signer=CLIENT, document=pem("jane", ["system:masters"]))
    code, answer = api.ask("POST", PATH, asked)
    assert (code, "system:masters" in answer["message"]) == (403, True)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (request(document=pem("jane")), "does not begin with system:node:"),
        (request(document=pem(groups=["devs"])), "organization is not system:nodes"),
        (request(document=pem(hosts=["n1"])), "subjectAltNames are not allowed"),
        (request(usages=("digital signature", "server auth")), "usages must be"),
        (request(signer=SERVING, usages=("digital signature", "server auth")), "DNS or IP subjectAltName is required"),
        (request(signer=CLIENT, document=pem("kube-apiserver-kubelet-client", ())), "the server's own name"),
        (request(signer=CLIENT, usages=("client auth", "cert sign")), "invalid usage"),
    ],
)
def test_what_a_signer_does_not_sign_fails_for_good(api, made, why):
    api.create(PATH, made)
    obj = approve(api)
    failed = obj["status"]["conditions"][-1]
    assert (failed["type"], failed["reason"]) == ("Failed", "SignerValidationFailure")
    assert why in failed["message"]
    assert "certificate" not in obj["status"]


def test_serving_certificates_carry_the_names_and_signers_of_others_are_left_alone(api):
    document = pem(hosts=["n1", "10.0.0.1"])
    api.create(PATH, request(signer=SERVING, document=document, usages=("digital signature", "server auth")))
    names = issued(approve(api)).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names == certificates.alternative_names(["n1", "10.0.0.1"])
    api.create(PATH, request("other", signer="example.com/own"))
    assert set(approve(api, "other")["status"]) == {"conditions"}


def test_conditions_are_added_and_stay(api):
    api.create(PATH, request())
    obj = approve(api)
    assert obj["status"]["conditions"][0]["lastUpdateTime"]
    denied = {"type": "Denied", "status": "True"}
    for conditions in ([], [APPROVED, denied], [{**APPROVED, "status": "False"}], [APPROVED, APPROVED]):
        code, _ = api.ask("PUT", f"{PATH}/r/approval", {**obj, "status": {"conditions": conditions}})
        assert code == 422, conditions
    api.create(PATH, request("open"))
    fresh = api.get(f"{PATH}/open")
    code, answer = api.ask("PUT", f"{PATH}/open/status", {**fresh, "status": {"conditions": [APPROVED]}})
    assert (code, "may not add" in answer["message"]) == (422, True)
    other = {**obj, "status": {**obj["status"], "certificate": base64.b64encode(b"x").decode()}}
    assert api.ask("PUT", f"{PATH}/r/status", other)[0] == 422


def test_approving_takes_a_right_of_its_own(api):
    api.create(PATH, request())
    rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["*"]}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    api.create(f"{roles}/clusterroles", {"kind": "ClusterRole", "metadata": {"name": "a"}, "rules": [rule]})
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    api.create(f"{roles}/clusterrolebindings", binding)
    obj, admin = api.get(f"{PATH}/r"), api.user
    api.user = User("jane", (AUTHENTICATED,))
    approval = {**obj, "status": {"conditions": [APPROVED]}}
    code, answer = api.ask("PUT", f"{PATH}/r/approval", approval)
    assert (code, "not permitted to approve" in answer["message"]) == (403, True)
    api.user = admin
    wider = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"]}
    role = api.get(f"{roles}/clusterroles/a")
    api.ask("PUT", f"{roles}/clusterroles/a", {**role, "rules": [rule, {**wider, "verbs": ["approve"]}]})
    api.user = User("jane", (AUTHENTICATED,))
    assert api.ask("PUT", f"{PATH}/r/approval", approval)[0] == 200


def test_the_table_shows_what_became_of_it(api):
    api.create(PATH, request())
    approve(api)
    table = api.get(PATH, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [each["name"] for each in table["columnDefinitions"]][2:] == [
        "SignerName",
        "Requestor",
        "RequestedDuration",
        "Condition",
    ]
    assert table["rows"][0]["cells"][2:] == [NODE_CLIENT, "system:admin", "<none>", "Approved,Issued"]


def test_requests_are_selected_by_their_signer(api):
    api.create(PATH, request())
    found = api.get(f"{PATH}?fieldSelector=spec.signerName={NODE_CLIENT}")["items"]
    assert [item["metadata"]["name"] for item in found] == ["r"]
    assert api.get(f"{PATH}?fieldSelector=spec.signerName=example.com/other")["items"] == []


def test_who_approves_or_signs_may_annotate(api):
    api.create(PATH, request(signer="example.com/other"))
    for part in ("approval", "status"):
        api.patch(f"{PATH}/r/{part}", {"metadata": {"annotations": {part: "yes"}}})
    assert api.get(f"{PATH}/r")["metadata"]["annotations"] == {"approval": "yes", "status": "yes"}


def test_a_node_that_cannot_be_recorded_yet_gets_its_certificate_later(api, monkeypatch):
    monkeypatch.setattr(certificate_signer, "_RETRY_SECONDS", 0.01)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    webhook = {
        "name": "away.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    metadata = {"name": "away"}
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    api.create(hooks, {"kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": [webhook]})
    api.create(PATH, request())
    assert set(approve(api)["status"]) == {"conditions"}
    api.delete(f"{hooks}/away")
    end = time.monotonic() + 60
    while "certificate" not in (found := api.get(f"{PATH}/r"))["status"]:
        assert time.monotonic() < end, found["status"]
        api.runner.run(asyncio.sleep(0.01))
    record = api.get("/api/v1/namespaces/kube-system/configmaps/node-certificate.n1")
    assert record["data"]["node"] == "n1"
