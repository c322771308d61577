"""The fixture `dray_kubelet`, as a driver's author uses it: drivers in this process and in others, faults on demand."""

import sys
from pathlib import Path

import pytest

from dray.driver import ContainerEdits, Device, Driver, Prepared, PreparedDevice
from dray.node.errors import PrepareError, UnprepareError
from dray.testing.kubelet.faults import deadline, dying, unreachable
from dray.testing.objects import claim_template, device_class, node, pod
from tests.driver.gpu_driver import DRIVER

SOURCE = Path(__file__).parents[2]


class Lamps(Driver):
    name = "lamps.example.com"

    async def devices(self):
        return [Device("lamp-0", attributes={"color": "red"}), Device("lamp-1", attributes={"color": "green"})]

    async def prepare(self, claim):
        return Prepared([PreparedDevice(each, ContainerEdits(env=(f"LAMP={each.device}",))) for each in claim.devices])


def lamp_cluster(dray_cluster):
    return dray_cluster(
        node("worker"),
        device_class("gpu", f'device.driver in ["lamps.example.com", "{DRIVER}"]'),
        claim_template("one"),
    )


def bound(cluster, name):
    cluster.apply(pod(name, templates=["one"]))
    cluster.wait_for("Pod", name, lambda pod: pod["spec"].get("nodeName"))


def test_a_driver_in_process_is_scheduled_prepared_and_unprepared(dray_cluster, dray_kubelet):
    cluster = lamp_cluster(dray_cluster)
    kubelet = dray_kubelet(cluster, node="worker")
    kubelet.run_driver(Lamps())
    bound(cluster, "p")
    started = kubelet.start_pod("p")
    assert started.env()["LAMP"] in ("lamp-0", "lamp-1")
    assert cluster.get("Pod", "p")["status"]["phase"] == "Running"
    assert len(kubelet.prepared_claims) == 1
    kubelet.restart()
    kubelet.end_pod("p")
    [claim] = cluster.list("ResourceClaim") or [{}]
    assert kubelet.prepared_claims == {}
    assert list(kubelet.cdi.iterdir()) == []
    cluster.delete("Pod", "p")
    if claim:
        cluster.wait_until_gone("ResourceClaim", claim["metadata"]["name"])


def test_a_driver_process_is_killed_frozen_restarted_and_stopped(dray_cluster, dray_kubelet):
    cluster = lamp_cluster(dray_cluster)
    kubelet = dray_kubelet(cluster, node="worker")
    command = [sys.executable, "-m", "tests.driver.gpu_driver", kubelet.root, kubelet.root / "hardware"]
    process = kubelet.start_driver(command, {"PYTHONPATH": str(SOURCE)})
    kubelet.wait_for_driver(DRIVER, within=30)
    bound(cluster, "p")
    with process.frozen():
        kubelet.faults.next_prepare(deadline(0.2))
        with pytest.raises(PrepareError, match="DEADLINE_EXCEEDED"):
            kubelet.try_pod("p")
    kubelet.faults.next_prepare(dying(process.kill), unreachable())
    with pytest.raises(PrepareError, match="UNAVAILABLE"):
        kubelet.try_pod("p")
    assert not process.is_alive
    process.start()
    assert kubelet.start_pod("p", within=30).env()
    kubelet.faults.next_unprepare(dying(process.kill))
    with pytest.raises(UnprepareError):
        kubelet.try_end("p")
    process.restart()
    kubelet.end_pod("p", within=30)
    assert list(kubelet.cdi.iterdir()) == []
    assert process.stop() == 0
    kubelet.wait_until_deregistered(DRIVER)
    assert kubelet.faults.prepares


def test_any_api_server_will_do(dray_cluster, dray_kubelet):
    cluster = lamp_cluster(dray_cluster)
    first = dray_kubelet(cluster, node="elsewhere")
    kubelet = dray_kubelet(kubeconfig=first.kubeconfig, node="worker")
    kubelet.run_driver(Lamps())
    bound(cluster, "p")
    assert kubelet.start_pod("p").env()["LAMP"]
    kubelet.end_pod("p")


def test_a_driver_that_never_registers_is_complained_about_with_its_output(dray_cluster, dray_kubelet):
    kubelet = dray_kubelet(dray_cluster(node("worker")), node="worker")
    kubelet.start_driver([sys.executable, "-c", "raise SystemExit('no such GPU')"])
    kubelet.eventually(lambda: "no such GPU" in "".join(each.read_text() for each in kubelet.root.glob("*.log")))
    with pytest.raises(AssertionError, match=r"(?s)1 connected instance.*no such GPU"):
        kubelet.wait_for_driver("gone.example.com", within=0.1)


def test_a_kubelet_needs_an_api_server():
    from dray.testing.kubelet.threaded import ThreadedKubelet

    with pytest.raises(ValueError, match="either a cluster or a kubeconfig"):
        ThreadedKubelet(node="worker")
