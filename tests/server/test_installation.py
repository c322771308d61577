"""Manifests as people install them, with kubectl: applied in both ways, again without a change, used, and deleted."""

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import yaml

from tests.server.kubectl import WITH_KUBECTL

pytestmark = WITH_KUBECTL
MANIFEST = str(Path(__file__).with_name("installation.yaml"))
RULES = [
    {"rule": "self.threads <= self.width * 10", "message": "too many threads"},
    {"rule": "!has(self.home) || size(self.home.namespace) > 0"},
]
SPEC = {
    "type": "object",
    "required": ["threads"],
    "properties": {
        "threads": {"type": "integer", "minimum": 1},
        "width": {"type": "integer", "default": 5},
        "home": {"type": "object", "properties": {"namespace": {"type": "string"}}},
        "pattern": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]},
    },
    "x-kubernetes-validations": RULES,
}


def definition(**more):
    """A kind with two versions; `more` are properties, as many as it takes to be large."""
    spec = {**SPEC, "properties": {**SPEC["properties"], **more}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema, "subresources": {"status": {}}}
        for name in ("v1beta1", "v1")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "looms.textile.example.com", "annotations": {"made.example.com/by": "hand"}},
        "spec": {
            "group": "textile.example.com",
            "names": {"kind": "Loom", "listKind": "LoomList", "plural": "looms", "singular": "loom"},
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "versions": versions,
        },
    }


def loom(name, **spec):
    head = {"apiVersion": "textile.example.com/v1", "kind": "Loom", "metadata": {"name": name}}
    return json.dumps({**head, "spec": spec})


def versions(kubectl):
    found = kubectl.json("get", "-f", MANIFEST)["items"]
    return {(each["kind"], each["metadata"]["name"]): each["metadata"]["resourceVersion"] for each in found}


def words(output):
    return {line.rsplit(" ", 1)[1] for line in output.splitlines()}


def count():
    return len(list(yaml.safe_load_all(Path(MANIFEST).read_text())))


def test_applied_twice_it_changes_nothing(kubectl):
    first = kubectl("apply", "-f", MANIFEST)
    assert words(first) == {"created"}
    assert len(first.splitlines()) == count()
    before = versions(kubectl)
    # kubectl sends lists that it cannot compare with their defaults again.
    assert words(kubectl("apply", "-f", MANIFEST)) <= {"unchanged", "configured"}
    assert versions(kubectl) == before


def test_a_definition_too_large_for_an_annotation(kubectl):
    many = {f"p{i}": {"type": "string", "description": "a property of a loom " * 20} for i in range(400)}
    text = json.dumps(definition(**many))
    refused = kubectl.run("apply", "-f", "-", text=text)
    assert "metadata.annotations: Too long: may not be more than 262144 bytes" in refused.stderr
    for _ in range(2):
        kubectl("apply", "--server-side", "-f", "-", text=text)
    assert kubectl.json("get", "crd", "looms.textile.example.com")["metadata"]["generation"] == 1


def test_what_needs_no_pods_works(kubectl):
    kubectl("apply", "-f", MANIFEST)
    kubectl("apply", "-f", "-", text=json.dumps(definition()))
    kubectl("wait", "--for=condition=Established", "crd/looms.textile.example.com", "--timeout=10s")
    # The mutating webhook has no pods yet.
    absent = kubectl.run("apply", "-f", "-", text=loom("a", threads=3))
    assert 'failed calling webhook "looms.textile.example.com"' in absent.stderr
    assert 'no endpoints available for service "loom-hooks"' in absent.stderr
    kubectl("run", "p", "--image=x", "--labels=textile.example.com/loom=a")
    patch = '{"webhooks": [{"name": "looms.textile.example.com", "failurePolicy": "Ignore"}]}'
    kubectl("patch", "mutatingwebhookconfiguration", "looms", "-p", patch)
    left = kubectl.json("get", "mutatingwebhookconfiguration", "looms")["webhooks"]
    assert [each["name"].partition(".")[0] for each in left] == ["looms", "pods"]
    kubectl("apply", "-f", "-", text=loom("a", threads=3, pattern="plain"))
    assert "too many threads" in kubectl.run("apply", "-f", "-", text=loom("b", threads=99)).stderr
    assert "is fixed" in kubectl.run("apply", "-f", "-", text=loom("a", threads=3, pattern="twill")).stderr
    assert kubectl("get", "looms.v1beta1.textile.example.com", "-o", "name") == "loom.textile.example.com/a\n"
    kubectl("create", "rolebinding", "weavers", "--clusterrole=edit", "--user=ann")
    assert kubectl("auth", "can-i", "create", "looms.textile.example.com", "--as=ann") == "yes\n"


def publish(url, node, on):
    """As the driver whose pod runs on a node; kubectl cannot say that in every version."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "loom.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "loom-0"}]}
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"loom-{node}"}}
    extra = {"Impersonate-Extra-Authentication.kubernetes.io%2Fnode-name": on} if on else {}
    headers = {
        "Content-Type": "application/json",
        "Impersonate-User": "system:serviceaccount:looms:loom-driver",
        **extra,
    }
    body = json.dumps({**document, "spec": spec}).encode()
    asked = Request(f"{url}/apis/resource.k8s.io/v1/resourceslices", body, headers)
    try:
        with urlopen(asked, timeout=20) as answer:
            return answer.status, ""
    except HTTPError as refused:
        return refused.code, json.load(refused)["message"]


def test_a_driver_publishes_for_its_node_alone(kubectl):
    kubectl("apply", "-f", MANIFEST)
    url = kubectl.server.url
    assert publish(url, "n1", on="n1") == (201, "")
    code, why = publish(url, "n2", on="n1")
    assert (code, "not the node of the driver: n2" in why) == (422, True)
    code, why = publish(url, "n2", on="")
    assert (code, "the driver has no node" in why) == (422, True)


def test_applied_on_the_server_twice_and_deleted(kubectl):
    assert words(kubectl("apply", "--server-side", "-f", MANIFEST)) == {"serverside-applied"}
    found = versions(kubectl)
    kubectl("apply", "--server-side", "-f", MANIFEST)
    assert versions(kubectl) == found
    kubectl("delete", "-f", MANIFEST, "--timeout=20s", "--ignore-not-found")
    assert kubectl("get", "-f", MANIFEST, "--ignore-not-found", "-o", "name") == ""
