"""kubectl against a server of its own for every test: the commands people use, and what they see."""

import json
import subprocess
import time

import yaml

from dray.testing import objects
from tests.server.kubectl import WITH_KUBECTL

pytestmark = WITH_KUBECTL

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: main, image: nginx, env: [{name: A, value: "1"}, {name: B, value: "2"}]}
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 2}}]}}
"""
DEVICE_CLASS = yaml.safe_dump(objects.device_class("gpu.example.com", f'device.driver == "{objects.DRIVER}"'))
GPU = objects.device("gpu-0", attributes={"model": "H100"}, capacity={"memory": "80Gi"})
SLICE = yaml.safe_dump(objects.resource_slice("n1-gpus", GPU, pool="n1", nodeName="n1"))
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-role.kubernetes.io/worker: ""}}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True", reason: KubeletReady, message: ready}]
"""


def test_api_resources(kubectl):
    listed = kubectl("api-resources")
    assert "resourceclaims" in listed
    assert "deviceclasses" in listed
    assert "resource.k8s.io/v1 " in listed
    assert "v1" in kubectl("api-versions")
    assert "Server Version: v1.37" in kubectl("version")
    assert "is running at" in kubectl("cluster-info")


def test_get_in_every_form(kubectl):
    kubectl("create", "-f", "-", text=POD)
    assert kubectl("get", "pods").split()[:9] == "NAME READY STATUS RESTARTS AGE web 0/1 Pending 0".split()
    assert "NOMINATED NODE" in kubectl("get", "pods", "-o", "wide")
    assert kubectl("get", "pods", "-o", "name") == "pod/web\n"
    assert kubectl.json("get", "pod", "web")["kind"] == "Pod"
    assert yaml.safe_load(kubectl("get", "pod", "web", "-o", "yaml"))["spec"]["containers"][0]["image"] == "nginx"
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].name}") == "main"
    assert kubectl("get", "pod", "web", "-o", "go-template={{.metadata.name}}") == "web"
    assert kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name") == "N\nweb\n"
    assert "app=web" in kubectl("get", "pods", "--show-labels")
    assert "web" in kubectl("get", "pods", "-A")
    assert "web" in kubectl("get", "pods", "-l", "app=web")
    assert "No resources" in kubectl.run("get", "pods", "-l", "app=other").stderr
    assert "pod/web" in kubectl("get", "all")
    assert "web" in kubectl("get", "pods", "--field-selector", "spec.nodeName=")
    assert "web" in kubectl("get", "pods", "--sort-by", ".metadata.name")
    assert "web" in kubectl("get", "--raw", "/api/v1/namespaces/default/pods")


def test_get_and_watch(kubectl):
    labelled = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {watched: 'yes'}}\n"
    kubectl("create", "-f", "-", text=labelled % "seen")
    watching = subprocess.Popen(
        kubectl.command("get", "configmaps", "-l", "watched=yes", "-w", "-o", "name"),
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment,
    )
    try:
        assert watching.stdout.readline() == "configmap/seen\n"
        kubectl("create", "-f", "-", text=labelled % "later")
        assert watching.stdout.readline() == "configmap/later\n"
    finally:
        watching.terminate()
        watching.communicate(timeout=30)


def test_create_and_delete(kubectl):
    assert "created" in kubectl("create", "-f", "-", text=f"{POD}---{CLAIM}---\n{DEVICE_CLASS}")
    assert "AlreadyExists" in kubectl.run("create", "-f", "-", text=CLAIM).stderr
    assert "pending" in kubectl("get", "resourceclaims")
    assert "deleted" in kubectl("delete", "-f", "-", text=f"{POD}---{CLAIM}")
    assert "No resources" in kubectl.run("get", "pods,resourceclaims").stderr


def test_a_mistake_is_explained(kubectl):
    done = kubectl.run("create", "-f", "-", text=CLAIM.replace("count: 2", "cuont: 2"))
    assert 'unknown field "spec.devices.requests[0].exactly.cuont"' in done.stderr


def test_delete_with_and_without_finalizers(kubectl):
    kubectl("create", "configmap", "free", "--from-literal=a=b")
    kubectl("create", "configmap", "held", "--from-literal=a=b")
    kubectl("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    kubectl("delete", "configmap", "free")
    kubectl("delete", "configmap", "held", "--wait=false")
    assert kubectl.json("get", "configmap", "held")["metadata"]["deletionTimestamp"]
    kubectl("patch", "configmap", "held", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    kubectl("wait", "--for=delete", "configmap/held", "--timeout=30s")
    kubectl("create", "configmap", "one", "--from-literal=a=b")
    assert 'configmap "one" deleted' in kubectl("delete", "configmaps", "--all")


def test_apply_and_diff(kubectl):
    assert "created" in kubectl("apply", "-f", "-", text=POD)
    assert "unchanged" in kubectl("apply", "-f", "-", text=POD)
    changed = POD.replace("nginx", "redis").replace(', {name: B, value: "2"}', "")
    different = kubectl.run("diff", "-f", "-", text=POD.replace("nginx", "redis"))
    assert different.returncode == 1
    assert "+    image: redis" in different.stdout
    assert kubectl.json("get", "pod", "web")["spec"]["containers"][0]["image"] == "nginx"
    assert "configured" in kubectl("apply", "-f", "-", text=POD.replace("nginx", "redis"))
    refused = kubectl.run("apply", "-f", "-", text=changed)
    assert "pod updates may not change fields" in refused.stderr or refused.returncode == 1
    assert "created" in kubectl("apply", "-f", "-", text=CLAIM)


def test_a_list_is_applied_and_pruned(kubectl):
    def listed(*names):
        maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in names]
        return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": maps})

    apply = ("apply", "-n", "default", "-f", "-", "--prune", "--applyset=configmaps/set")
    made = kubectl(*apply, text=listed("a", "b"), KUBECTL_APPLYSET="true")
    assert made == "configmap/a created\nconfigmap/b created\n"
    pruned = kubectl(*apply, text=listed("b"), KUBECTL_APPLYSET="true")
    assert pruned == "configmap/b unchanged\nconfigmap/a pruned\n"


def test_apply_on_the_server(kubectl):
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=CLAIM)
    labelled = CLAIM.replace("{name: gpu}", "{name: gpu, labels: {a: b}}")
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=labelled)
    other = labelled.replace("a: b", "a: c")
    refused = kubectl.run("apply", "--server-side", "--field-manager=other", "-f", "-", text=other)
    assert "conflict" in refused.stderr
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", text=other)
    assert kubectl.json("get", "resourceclaim", "gpu")["metadata"]["labels"] == {"a": "c"}


def test_replace_patch_label_annotate(kubectl):
    kubectl("create", "-f", "-", text=POD)
    live = kubectl("get", "pod", "web", "-o", "yaml")
    assert "replaced" in kubectl("replace", "-f", "-", text=live.replace("image: nginx", "image: redis"))
    kubectl("patch", "pod", "web", "-p", '{"spec":{"containers":[{"name":"main","image":"caddy"}]}}')
    kubectl("label", "pod", "web", "tier=front")
    kubectl("label", "pod", "web", "app-")
    kubectl("annotate", "pod", "web", "note=hello")
    pod = kubectl.json("get", "pod", "web")
    assert pod["spec"]["containers"][0]["image"] == "caddy"
    assert pod["metadata"]["labels"] == {"tier": "front"}
    assert pod["metadata"]["annotations"] == {"note": "hello"}
    kubectl("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
    assert "Running" in kubectl("get", "pods")


def test_edit(kubectl):
    kubectl("create", "configmap", "words", "--from-literal=word=hello")
    assert "edited" in kubectl("edit", "configmap", "words", KUBE_EDITOR="sed -i s/hello/goodbye/")
    assert kubectl.json("get", "configmap", "words")["data"] == {"word": "goodbye"}


def test_describe(kubectl):
    kubectl("create", "-f", "-", text="---\n".join((POD, CLAIM, DEVICE_CLASS, SLICE, NODE)))
    described = kubectl("describe", "pod", "web")
    assert "QoS Class: BestEffort" in " ".join(described.split())
    assert "Projected (a volume that contains injected data from multiple sources)" in described
    assert "Device Class Name:  gpu.example.com" in kubectl("describe", "resourceclaim", "gpu")
    assert "gpu-0" in kubectl("describe", "resourceslice", "n1-gpus")
    assert "device.driver" in kubectl("describe", "deviceclass", "gpu.example.com")
    assert "Capacity:" in kubectl("describe", "node", "n1")
    assert "Active" in kubectl("describe", "namespace", "default")


def test_explain(kubectl):
    text = kubectl("explain", "resourceclaim.spec.devices.requests.exactly")
    assert "deviceClassName" in text
    assert "-required-" in text
    assert "KIND:       Pod" in kubectl("explain", "pod.spec.containers")
    assert "GROUP:      resource.k8s.io" in kubectl("explain", "deviceclass", "--recursive")


def test_wait(kubectl):
    kubectl("create", "-f", "-", text=POD)
    waiting = subprocess.Popen(
        kubectl.command("wait", "--for=condition=Ready", "pod/web", "--timeout=20s"),
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment,
    )
    time.sleep(0.3)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "web", "--subresource=status", "-p", json.dumps(ready))
    assert "condition met" in waiting.communicate(timeout=20)[0]


def test_taint_cordon_drain(kubectl):
    bound = POD.replace("spec:", "spec:\n  nodeName: n1\n  terminationGracePeriodSeconds: 0")
    kubectl("create", "-f", "-", text=f"{NODE}---{bound}")
    kubectl("taint", "node", "n1", "key=value:NoSchedule")
    kubectl("cordon", "n1")
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    kubectl("uncordon", "n1")
    assert "drained" in kubectl("drain", "n1", "--force", "--timeout=20s")
    node = kubectl.json("get", "node", "n1")
    assert node["spec"]["unschedulable"] is True
    assert {"key": "key", "value": "value", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert "No resources" in kubectl.run("get", "pods").stderr


def test_auth(kubectl):
    assert kubectl("auth", "can-i", "create", "resourceclaims") == "yes\n"
    assert "system:admin" in kubectl("auth", "whoami")
    assert kubectl.run("auth", "can-i", "create", "pods", "--as", "joe").stdout == "no\n"
    kubectl("create", "clusterrolebinding", "joe", "--clusterrole=view", "--user=joe")
    assert kubectl("auth", "can-i", "list", "resourceclaims", "--as", "joe") == "yes\n"
    assert "resourceclaims.resource.k8s.io" in kubectl("auth", "can-i", "--list", "--as", "joe")


def test_create_in_words(kubectl):
    kubectl("create", "namespace", "team")
    kubectl("create", "configmap", "words", "-n", "team", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "hidden", "-n", "team", "--from-literal=a=b")
    kubectl("create", "serviceaccount", "robot", "-n", "team")
    kubectl("create", "quota", "few", "-n", "team", "--hard=count/resourceclaims.resource.k8s.io=1")
    kubectl("create", "priorityclass", "high", "--value=1000")
    kubectl("run", "job", "-n", "team", "--image=x", "--overrides", '{"spec":{"priorityClassName":"high"}}')
    assert kubectl.json("get", "pod", "job", "-n", "team")["spec"]["priority"] == 1000
    kubectl("create", "job", "once", "-n", "team", "--image=x", "--", "true", "-v")
    spec = kubectl.json("get", "job", "once", "-n", "team")["spec"]["template"]["spec"]
    assert (spec["containers"][0]["command"], spec["restartPolicy"]) == (["true", "-v"], "Never")
    assert kubectl("create", "token", "robot", "-n", "team").count(".") == 2
    kubectl("create", "-n", "team", "-f", "-", text=CLAIM)
    second = kubectl.run("create", "-n", "team", "-f", "-", text=CLAIM.replace("name: gpu}", "name: gpu2}", 1))
    assert "exceeded quota: few" in second.stderr
    kubectl("delete", "namespace", "team", "--timeout=20s")
    assert "NotFound" in kubectl.run("get", "namespace", "team").stderr


def test_events(kubectl):
    kubectl("create", "-f", "-", text=POD)
    uid = kubectl.json("get", "pod", "web")["metadata"]["uid"]
    event = f"""
apiVersion: v1
kind: Event
metadata: {{name: e}}
involvedObject: {{apiVersion: v1, kind: Pod, name: web, namespace: default, uid: {uid}}}
reason: Tested
message: it was
type: Warning
lastTimestamp: "2026-01-01T00:00:00Z"
count: 1
"""
    kubectl("create", "-f", "-", text=event)
    assert "Tested" in kubectl("events")
    assert "pod/web" in kubectl("get", "events")
    assert "Tested" in kubectl("events", "--for", "pod/web")
    assert "Tested" in kubectl("describe", "pod", "web")


def test_logs_and_exec_say_what_is_missing(kubectl):
    kubectl("create", "-f", "-", text=POD)
    assert "does not have a host assigned" in kubectl.run("logs", "web").stderr
    assert "does not have a host assigned" in kubectl.run("exec", "web", "--", "ls").stderr


def test_custom_kinds(kubectl):
    definition = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, shortNames: [wd]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, description: how large it is}}}
"""
    kubectl("apply", "-f", "-", text=definition)
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=30s")
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n"
    kubectl("apply", "-f", "-", text=widget)
    assert "SIZE" in kubectl("get", "wd")
    assert "how large it is" in kubectl("explain", "widget.spec.size")
    assert "configured" in kubectl("apply", "-f", "-", text=widget.replace("3", "4"))
    assert kubectl.json("get", "widget", "w")["spec"] == {"size": 4}


def test_objects_of_a_removed_version_are_answered_with_how_to_convert_them(kubectl):
    old = "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClass\nmetadata: {name: gpu}\ndriverName: d.example.com"
    for command in ("apply", "create"):
        refused = kubectl.run(command, "-f", "-", text=old)
        assert refused.returncode == 1
        assert "`dray convert FILE` rewrites the manifest" in refused.stderr
    # The newest version is still the preferred one.
    assert "resource.k8s.io/v1 " in kubectl("api-resources", "--api-group=resource.k8s.io")
