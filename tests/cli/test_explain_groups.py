"""`dray explain` of groups that a server has. There is no scheduler: pods stay as they are put."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.client.foreign_kinds import definitions
from tests.cli.test_explain_live import Dray, Server
from tests.cli.test_queue import QUEUES
from tests.server.process import listening

GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %s}
spec: {schedulingPolicy: {gang: {minCount: %d}}}
---
"""
OTHER = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s}
spec: {minMember: 2}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulingGroup: {podGroupName: %s}
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "3"}}}]
---
"""


@pytest.fixture
def server(run: Dray, tmp_path: Path) -> Iterator[Server]:
    with listening(kubeconfig=tmp_path / "kubeconfig"):
        made = Server(run, tmp_path / "kubeconfig")
        made.apply("\n---\n".join(map(json.dumps, definitions())))
        made.node("n1", 1)
        yield made


def test_size_and_places_of_a_group_and_of_its_pods(server: Server) -> None:
    server.apply(GROUP % ("g", 3) + "".join(POD % (name, "g") for name in ("a", "b")))
    status, lines = server.explain("podgroup", "g")
    waiting = "PodGroup default/g has 2 of the 3 pods that have to start together: waiting for the others"
    size = "size: 3 pods start together, 2 are there, 0 of 2 can be tried"
    assert (status, lines) == (1, [f"group default/g: waits: {waiting}", f"└─ {size}; {waiting}"])
    server.apply(POD % ("c", "g"))
    status, lines = server.explain("podgroup/g")
    need = "3 pods have to be placed together, but only 2 fit."
    assert (status, lines[:3]) == (
        1,
        [
            f"group default/g: waits: {need}",
            "├─ size: 3 pods start together, 3 are there",
            "├─ topology: anywhere: a place for 2 of 3 pods",
        ],
    )
    assert lines[3].startswith("└─ devices and nodes: for the next pod: 0/1 nodes are available: 1 Insufficient cpu")
    status, lines = server.explain("pod", "a")
    remedy = "free devices, add nodes, or lower the minimum of the group"
    assert (status, lines[:2]) == (
        1,
        [f"pod default/a: cannot be placed: {need[:-1]}; {remedy}", "└─ PodGroup default/g"],
    )
    status, lines = server.explain("pg", "g", "-o", "json")
    found = json.loads("\n".join(lines))
    assert (status, found["group"]["need"], found["group"]["places"]) == (1, 3, 2)


def test_one_that_fits_one_that_is_not_there_and_two_of_one_name(server: Server) -> None:
    server.apply(GROUP % ("g", 2) + POD % ("a", "g") + POD % ("b", "g"))
    status, lines = server.explain("podgroup", "g")
    assert (status, lines[0]) == (0, "group default/g: fits")
    status, lines = server.explain("podgroup", "none")
    assert (status, lines) == (2, ["error: there is no PodGroup none in namespace default"])
    server.apply(OTHER % "g")
    status, lines = server.explain("podgroup", "g")
    assert status == 2
    assert lines[0].startswith("error: there are 2 groups g in namespace default; say which, as in podgroup.")
    status, lines = server.explain("podgroup.scheduling.x-k8s.io", "g")
    assert (status, lines[0]) == (1, "group default/g: has no pending pods")


def test_a_queue_that_has_too_little_is_the_cause(server: Server) -> None:
    queues = QUEUES[: QUEUES.index("---\napiVersion: v1\nkind: Pod")]
    labelled = POD.replace("name: %s}\nspec", "name: %s, labels: {kueue.x-k8s.io/queue-name: team}}\nspec")
    server.apply(f"{queues}---\n" + GROUP % ("g", 2) + labelled % ("a", "g") + labelled % ("b", "g"))
    status, lines = server.explain("podgroup", "g")
    cause = (
        "can never fit: ClusterQueue team has 1.5 cpu at most, borrowing included, and 6 are needed; raise the quota,"
        " or ask for less"
    )
    assert (status, lines[:3]) == (
        1,
        [f"group default/g: waits: {cause}", "├─ size: 2 pods start together, 2 are there", lines[2]],
    )
    assert [line for line in lines if cause in line] == [lines[0], lines[2]]
    assert f"─ queue: {cause}" in lines[2]


DEVICES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [deviceclass.resource.kubernetes.io/gpu]
    flavors:
    - name: any
      resources: [{name: deviceclass.resource.kubernetes.io/gpu, nominalQuota: 1}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: nic}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: nic}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  resourceClaims: [{name: nic, resourceClaimName: c}]
  containers: [{name: main, image: busybox, resources: {claims: [{name: nic}]}}]
"""


def test_a_device_class_that_the_queue_does_not_cover_is_named_with_what_to_do(server: Server) -> None:
    server.apply(DEVICES)
    status, lines = server.explain("pod", "p")
    assert status == 1
    said = " ".join(lines)
    assert "ClusterQueue team has no quota for device class nic" in said
    assert "add deviceclass.resource.kubernetes.io/nic to its coveredResources" in said
    assert "dray.dev/uncovered-device-classes: allow" in said
