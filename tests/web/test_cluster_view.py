"""The cluster view without a browser: snapshots, changes, layouts, and what viewers with few rights see."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dray.api.objects import Object, key_of
from dray.client.cache import Change
from dray.testing import objects
from dray.web.devices.known_layouts import KnownLayouts
from dray.web.devices.layouts import layout_of
from dray.web.model import Model, Table
from dray.web.rights import Sight
from dray.web.services import Services
from dray.web.view import Question
from dray.web.views import cluster
from dray.web.views.cluster import VIEW, ClusterSource

GPU = "gpu.nvidia.com"


def gpu(number: int, **more: Any) -> Object:
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": "H100"},
        "uuid": {"string": f"GPU-{number}"},
        "resource.kubernetes.io/numaNode": {"int": number // 2},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:0{number}"},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more}


def slice_of(node: str, devices: list[Object], **more: Any) -> Object:
    spec = {"driver": GPU, "nodeName": node, "pool": {"name": node, "generation": 1}, "devices": devices, **more}
    return {"metadata": {"name": f"{node}-gpu"}, "spec": spec}


def node(name: str, rack: str = "", ready: str = "True") -> Object:
    labels = {"topology.kubernetes.io/rack": rack} if rack else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def claim(name: str, node: str, *devices: str, namespace: str = "red", share: str = "") -> Object:
    consumed = {"consumedCapacity": {"memory": share}} if share else {}
    results = [{"request": "r", "driver": GPU, "pool": node, "device": each, **consumed} for each in devices]
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def pod(name: str, claim: str, queue: str = "", namespace: str = "red") -> Object:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    made = objects.pod(name, namespace=namespace)
    made["metadata"]["labels"] = labels
    made["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": claim}]
    return made


class Stage:
    """A model that is filled by hand."""

    def __init__(self, **kinds: list[Object]) -> None:
        self.tables = {
            kind: Table(None, {key_of(each): each for each in kinds.get(kind, [])}, Counter()) for kind in VIEW.reads
        }

    def table(self, kind: str) -> Table:
        return self.tables[kind]

    def source(self, **namespaces: frozenset[str]) -> ClusterSource:
        sight = Sight({kind: namespaces.get(kind) for kind in VIEW.reads})
        model: Model = self  # type: ignore[assignment]
        self.made = ClusterSource(Question(model, sight, {}, Services()))
        return self.made

    def put(self, kind: str, value: Object) -> None:
        before = self.tables[kind].objects.get(key_of(value))
        self.tables[kind].objects[key_of(value)] = value
        self.made.take(kind, Change("MODIFIED" if before else "ADDED", key_of(value), value, before))

    def remove(self, kind: str, value: Object) -> None:
        before = self.tables[kind].objects.pop(key_of(value))
        self.made.take(kind, Change("DELETED", key_of(value), before, before))


def two_nodes(**kinds: list[Object]) -> Stage:
    slices = [slice_of(name, [gpu(number) for number in range(4)]) for name in ("a", "b")]
    return Stage(nodes=[node("a", "r1"), node("b", "r2")], slices=slices, **kinds)


def test_nodes_of_one_type_share_a_layout_with_numa_and_roots() -> None:
    snapshot = two_nodes().source().snapshot()
    assert snapshot["racks"] == ["r1", "r2"]
    assert snapshot["nodes"] == {"names": ["a", "b"], "racks": [0, 1], "states": [0, 0], "layouts": [0, 0]}
    assert snapshot["layouts"] == [[0, 1, 2, 3]]
    assert snapshot["shapes"][3][:6] == ("gpu-3", GPU, "H100", "gpu", 1, "pci0000:03")
    assert snapshot["shapes"][3].memory == 80 * 1024
    assert snapshot["states"] == "f" * 8


def test_a_claim_holds_devices_until_it_is_deleted() -> None:
    stage = two_nodes(claims=[claim("c", "b", "gpu-1")], pods=[pod("p", "c", "q")])
    source = stage.source()
    snapshot = source.snapshot()
    assert snapshot["states"] == "fffffaff"
    assert snapshot["held"] == [5, 0, 100]
    assert snapshot["claims"] == {"0": ["red", "c", "q", "2026-01-01T00:00:00Z", "p"]}
    new = claim("new", "a", "gpu-0", "gpu-2")
    stage.put("claims", new)
    change = source.change()
    assert change["devices"] == [[0, "a", -1, [[1, 100]]], [2, "a", -1, [[1, 100]]]]
    assert change["claims"]["1"][:2] == ["red", "new"]
    stage.put("pods", pod("user", "new", "other"))
    assert source.change() == {"claims": {"1": ["red", "new", "other", "2026-01-01T00:00:00Z", "user"]}}
    stage.remove("claims", new)
    assert source.change()["devices"] == [[0, "f", -1, []], [2, "f", -1, []]]
    assert source.change() is None


def test_shares_of_a_device_are_percentages_of_its_memory() -> None:
    shared = slice_of("a", [gpu(0, allowMultipleAllocations=True)])
    claims = [claim("one", "a", "gpu-0", share="20Gi"), claim("two", "a", "gpu-0", share="40Gi")]
    snapshot = Stage(nodes=[node("a")], slices=[shared], claims=claims).source().snapshot()
    assert (snapshot["states"], snapshot["held"]) == ("s", [0, 0, 25, 0, 1, 50])


def test_partitions_are_inside_their_gpu_and_block_it() -> None:
    counters = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]

    def using(number: str) -> list[Object]:
        return [{"counterSet": "gpu", "counters": {"slices": {"value": number}}}]

    attributes = {"parentUUID": {"string": "GPU-0"}, "profile": {"string": "1g.10gb"}}
    part: Object = {"name": "gpu-0-mig-1g", "attributes": attributes, "consumesCounters": using("1")}
    made = slice_of("a", [part, gpu(0, consumesCounters=using("7"))], sharedCounters=counters)
    snapshot = Stage(slices=[made], claims=[claim("c", "a", "gpu-0-mig-1g")]).source().snapshot()
    shapes = [snapshot["shapes"][number] for number in snapshot["layouts"][0]]
    at = {shape.name: place for place, shape in enumerate(shapes)}
    assert shapes[at["gpu-0-mig-1g"]].parent == at["gpu-0"]
    assert {snapshot["states"][at["gpu-0-mig-1g"]], snapshot["states"][at["gpu-0"]]} == {"a", "b"}


def test_taints_and_rules_show_and_go() -> None:
    stage = two_nodes()
    source = stage.source()
    tainted = slice_of("a", [gpu(0, taints=[{"key": "x", "effect": "NoSchedule"}]), *(gpu(each) for each in (1, 2, 3))])
    stage.put("slices", tainted)
    assert source.change() == {"devices": [[0, "t", -1, []]]}
    stage.put("slices", slice_of("a", [gpu(number) for number in range(4)]))
    assert source.change() == {"devices": [[0, "f", -1, []]]}


def test_a_viewer_who_sees_few_claims_does_not_take_devices_for_free() -> None:
    claims = [claim("mine", "a", "gpu-0", namespace="red"), claim("theirs", "a", "gpu-1", namespace="blue")]
    stage = two_nodes(claims=claims)
    snapshot = stage.source(claims=frozenset({"red"}), pods=frozenset({"red"})).snapshot()
    assert snapshot["states"] == "auuuuuuu"
    assert "theirs" not in str(snapshot)
    stage.put("claims", claim("other", "a", "gpu-2", namespace="blue"))
    assert stage.made.change() is None


def test_changes_of_what_a_viewer_may_not_list_cause_no_work_and_no_frame() -> None:
    stage = two_nodes()
    source = stage.source(slices=frozenset(), nodes=frozenset(), taintrules=frozenset(), claims=frozenset())
    stage.put("slices", slice_of("a", [gpu(number) for number in range(8)]))
    stage.put("slices", {**slice_of("c", [gpu(0)]), "spec": {**slice_of("c", [gpu(0)])["spec"], "nodeName": ""}})
    stage.put("nodes", node("a", "r1", ready="False"))
    stage.put("nodes", node("a", "r9"))
    assert not source.is_outdated
    assert source.change() is None
    source = stage.source(nodes=frozenset())
    stage.put("nodes", node("a", "r7", ready="True"))
    assert not source.is_outdated
    assert source.change() is None


def test_a_new_node_makes_the_source_outdated() -> None:
    stage = two_nodes()
    source = stage.source()
    stage.put("nodes", node("c"))
    assert not source.is_outdated
    stage.put("slices", slice_of("c", [gpu(0)]))
    assert source.is_outdated


def test_devices_of_no_single_node_are_counted_apart() -> None:
    stage = two_nodes()
    assert stage.source().snapshot()["apart"] == 0
    fabric = slice_of("fabric", [gpu(0), gpu(1)])
    del fabric["spec"]["nodeName"]
    stage.put("slices", {**fabric, "spec": {**fabric["spec"], "allNodes": True}})
    assert stage.made.is_outdated
    assert stage.source().snapshot()["apart"] == 2


def test_claims_that_are_gone_do_not_pile_up() -> None:
    stage = two_nodes()
    source = stage.source()
    for number in range(3000):
        new, user = claim(f"c-{number}", "a", "gpu-0"), pod(f"p-{number}", f"c-{number}")
        stage.put("claims", new)
        stage.put("pods", user)
        source.change()
        stage.remove("claims", new)
        stage.remove("pods", user)
        source.change()
        if source.is_outdated:
            source = stage.source()
    assert len(source.snapshot()["claims"]) < 1100
    assert len(source._users) < 10


def test_many_changes_at_once_are_left_to_a_new_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_MOST_NODES", 1)
    stage = two_nodes()
    source = stage.source()
    stage.put("claims", claim("one", "a", "gpu-0"))
    assert not source.is_outdated
    stage.put("claims", claim("two", "b", "gpu-0"))
    assert source.is_outdated


def test_a_node_that_is_not_ready_or_cordoned_is_told() -> None:
    stage = two_nodes()
    source = stage.source()
    stage.put("nodes", node("b", "r2", ready="False"))
    assert source.change() == {"nodes": {"1": 1}}
    stage.put("nodes", {**node("b", "r2"), "spec": {"unschedulable": True}})
    assert source.change() == {"nodes": {"1": 2}}


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = slice_of("a", [gpu(0), gpu(1)])
    new = slice_of("a", [gpu(0)])
    new["metadata"]["name"], new["spec"]["pool"]["generation"] = "later", 2
    assert [place[2] for place in layout_of([old, new]).places] == ["gpu-0"]


def test_layouts_are_known_until_the_slices_change() -> None:
    known = KnownLayouts()
    first, second = slice_of("a", [gpu(0), gpu(1)]), slice_of("b", [gpu(0)])
    known.renew([first, second])
    layout, plain = known.of("a", [first])
    assert (len(layout.places), plain) == (2, True)
    assert known.of("a", [first])[0] is layout
    assert len(known.of("a", [slice_of("a", [gpu(0)])])[0].places) == 1
    assert known.of("b", [slice_of("b", [gpu(0, allowMultipleAllocations=True)])])[1] is False
    known.renew([first])
    assert list(known._known) == ["a"]
