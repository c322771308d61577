"""Pods that a node does not run, however they came to it."""

import pytest

from dray.node.pod_admission import PodAdmission
from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.objects import node
from tests.node.machines import NODE, Machine, pod, ready, shell

# A kubelet writes no states of containers, so that kubectl and `dray get` show the reason.
REJECTED = {"phase", "reason", "message", "startTime", "qosClass", "observedGeneration"}


def asking(name="p", uid="u", ports=(), **spec):
    requests = spec.pop("requests", {})
    made = pod(name, {"resources": {"requests": requests}, "ports": list(ports)}, **spec)
    made["metadata"]["uid"] = uid
    return made


def port(number, address="0.0.0.0"):
    return {"containerPort": 80, "hostPort": number, "hostIP": address, "protocol": "TCP"}


def small(**spec):
    made = node(NODE, labels={"zone": "a"}, **spec)
    made["status"] = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2", "example.com/card": "1"}}
    return made


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        (
            {"requests": {"cpu": "1500m"}},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000",
        ),
        (
            {"requests": {"memory": "2Gi"}},
            "OutOfmemory",
            f"Node didn't have enough resource: memory, requested: {2 << 30}, used: 0, capacity: {1 << 30}",
        ),
        (
            {"requests": {"example.com/card": "2"}},
            "OutOfexample.com/card",
            "Node didn't have enough resource: example.com/card, requested: 2, used: 0, capacity: 1",
        ),
        (
            {"nodeSelector": {"zone": "b"}},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {"ports": [port(8080, "127.0.0.1")]},
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            {"os": {"name": "windows"}},
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            {"hostUsers": False},
            "UserNamespacesNotSupported",
            "The node has no user namespaces for pods: remove hostUsers",
        ),
    ],
)
def test_a_pod_is_refused_as_a_kubelet_does(asked, reason, message):
    others = [asking("other", "o", [port(8080)], requests={"cpu": "1"})]
    found = PodAdmission().refusal(asking(**asked), small(), others)
    assert (found.reason, found.message) == (reason, message)


def test_a_pod_that_fits_is_not():
    others = [asking("other", "o", [port(8080)], requests={"cpu": "1"})]
    fits = asking(ports=[port(8081)], requests={"cpu": "1", "example.com/served": "4"}, nodeSelector={"zone": "a"})
    assert PodAdmission().refusal(fits, small(), others) is None


def test_there_are_only_so_many_pods_on_a_node():
    others = [asking(name, name) for name in "ab"]
    found = PodAdmission().refusal(asking(), small(), others)
    assert found.reason == "OutOfpods"
    assert found.message == "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"


def test_a_taint_that_evicts_keeps_pods_out():
    tainted = small()
    tainted["spec"]["taints"] = [{"key": "gone", "effect": "NoExecute"}]
    assert PodAdmission().refusal(asking(), tainted, []).reason == "TaintToleration"
    tolerant = asking(tolerations=[{"key": "gone", "operator": "Exists"}])
    assert PodAdmission().refusal(tolerant, tainted, []) is None


async def test_a_pod_that_was_bound_by_hand_fails_and_others_go_on(tmp_path):
    async with LocalCluster() as cluster:
        machine = Machine(cluster, tmp_path, resources={"cpu": "2"})
        await machine.start()
        one = {"resources": {"requests": {"cpu": "1500m"}}}
        await cluster.create(pod("first", shell("sleep 1000", **one)))
        await cluster.create(pod("second", shell("sleep 1000", **one)))
        failed = await machine.phase("second", "Failed")
        assert failed["status"]["reason"] == "OutOfcpu"
        why = "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000"
        assert failed["status"]["message"] == f"Pod was rejected: {why}"
        assert set(failed["status"]) <= REJECTED
        await machine.until("first", ready)
        # A label that the agent has not seen yet counts all the same.
        await cluster.client.patch(kind_of("Node"), NODE, {"metadata": {"labels": {"zone": "a"}}})
        await cluster.create(pod("third", shell("true"), nodeSelector={"zone": "a"}, restartPolicy="Never"))
        await machine.phase("third", "Succeeded")
        await machine.stop()
        await machine.clean()
