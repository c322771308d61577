"""The pytest plugin: `dray_cluster`, a control plane for tests, and `dray_kubelet`, a kubelet for drivers under test.

    def test_the_pod_gets_a_gpu(dray_cluster):
        cluster = dray_cluster(Path("cluster/"), pod)
        assert cluster.wait_for("Pod", "p", lambda pod: pod["spec"].get("nodeName"))

    def test_the_driver_prepares_a_claim(dray_cluster, dray_kubelet):
        cluster = dray_cluster(node("worker"), device_class("gpu"), claim_template("one"), pod("p", templates=["one"]))
        kubelet = dray_kubelet(cluster, node="worker")
        kubelet.run_driver(MyDriver())
        cluster.wait_for("Pod", "p", lambda pod: pod["spec"].get("nodeName"))
        assert kubelet.start_pod("p").env()["GPU"]

Nothing of dray but this module is imported before a test asks for a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dray.testing.kubelet.threaded import ThreadedKubelet
    from dray.testing.threaded import ThreadedCluster


@pytest.fixture
def dray_cluster() -> Iterator[Callable[..., ThreadedCluster]]:
    """Makes clusters that end with the test: `dray_cluster(*objects, fleet=…, node=…, scheduler=…, controllers=…)`.

    Objects are dicts, YAML, or paths of files and directories, and are there before anything runs. `fleet` adds
    simulated machines, as in `p5.48xlarge=2`; with `node=True` this machine is a node that runs pods as processes. API
    server, scheduler and all controllers run in this process; `scheduler=None` and `controllers=()` leave them out.
    """
    with ExitStack() as clusters:
        yield partial(_make, clusters)


@pytest.fixture(scope="session")
def dray_session_cluster() -> Iterator[Callable[..., ThreadedCluster]]:
    """Makes clusters as `dray_cluster` does, which end with the test session."""
    with ExitStack() as clusters:
        yield partial(_make, clusters)


def _make(clusters: ExitStack, /, *objects: Any, **options: Any) -> ThreadedCluster:
    from dray.controllers.registry import CONTROLLERS
    from dray.scheduling.scheduler import Options
    from dray.testing.threaded import ThreadedCluster

    chosen: dict[str, Any] = {"scheduler": Options(), "controllers": CONTROLLERS, **options}
    return clusters.enter_context(ThreadedCluster(objects=objects, **chosen))


@pytest.fixture
def dray_kubelet(dray_cluster: Callable[..., ThreadedCluster]) -> Iterator[Callable[..., ThreadedKubelet]]:
    """Makes kubelet doubles that end with the test, before its clusters: `dray_kubelet(cluster, node=…)`.

    `cluster` comes from `dray_cluster`; `dray_kubelet(kubeconfig=…, node=…)` uses any API server. Further options are
    those of `dray.testing.kubelet.double.KubeletDouble`.
    """
    with ExitStack() as kubelets:

        def make(*cluster: Any, **options: Any) -> ThreadedKubelet:
            from dray.testing.kubelet.threaded import ThreadedKubelet

            return kubelets.enter_context(ThreadedKubelet(*cluster, **options))

        yield make
