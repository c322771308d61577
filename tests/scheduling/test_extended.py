from __future__ import annotations

from typing import Any

import pytest

from dray.scheduling.cluster.extended import ResourceMap, requests_for, wanted
from tests.scheduling.models import container, document

GPU, FPGA = "example.com/gpu", "example.com/fpga"


def device_class(name: str, resource: str | None = None, created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    spec = {"extendedResourceName": resource} if resource else {}
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


@pytest.fixture
def resources() -> ResourceMap:
    made = ResourceMap()
    made.put_class(device_class("gpu", GPU))
    made.put_class(device_class("fpga", FPGA))
    return made


def test_a_class_serves_its_explicit_and_its_implicit_name(resources: ResourceMap) -> None:
    assert resources.class_of(GPU) == "gpu"
    assert resources.class_of("deviceclass.resource.kubernetes.io/gpu") == "gpu"
    resources.put_class(device_class("gpu"))
    assert resources.class_of(GPU) is None
    resources.remove_class("gpu")
    assert resources.class_of("deviceclass.resource.kubernetes.io/gpu") is None
    resources.remove_class("gpu")


def test_the_youngest_class_has_the_name_then_the_first_by_name() -> None:
    resources = ResourceMap()
    old, young = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    for name, created in (("b", young), ("a", old), ("c", young)):
        resources.put_class(device_class(name, GPU, created))
    answers = []
    for name in ("b", "c", "a"):
        answers.append(resources.class_of(GPU))
        resources.remove_class(name)
    assert answers == ["b", "c", "a"]
    assert resources.class_of(GPU) is None
    assert not resources


WANTED = {
    "mapped": ({GPU: "1"}, {GPU}),
    "implicit": ({"deviceclass.resource.kubernetes.io/gpu": "1"}, {"deviceclass.resource.kubernetes.io/gpu"}),
    "none of it": ({GPU: "0"}, set()),
    "not mapped": ({"example.com/nic": "1"}, set()),
    "of the node": ({"cpu": "1", "kubernetes.io/x": "1"}, set()),
}


@pytest.mark.parametrize(("amounts", "expected"), WANTED.values(), ids=WANTED)
def test_wanted(resources: ResourceMap, amounts: dict[str, str], expected: set[str]) -> None:
    resources.put_class(device_class("strange", "kubernetes.io/x"))
    assert wanted(document(containers=[container(**amounts)]), resources) == expected
    assert wanted(document(initContainers=[container(**amounts)]), resources) == expected
    assert wanted(document(containers=[container(**amounts)]), ResourceMap()) == frozenset()


def requests_of(
    resources: ResourceMap, *, init: list[dict[str, Any]], regular: list[dict[str, Any]], served: set[str]
) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, str]]]:
    requests, mappings = requests_for(document(initContainers=init, containers=regular), served, resources)
    for request in requests:
        assert request["exactly"].pop("allocationMode") == "ExactCount"
    return (
        [(each["name"], each["exactly"]["deviceClassName"], each["exactly"]["count"]) for each in requests],
        [(each["containerName"], each["resourceName"], each["requestName"]) for each in mappings],
    )


def sidecar(name: str, **amounts: str) -> dict[str, Any]:
    return {**container(name, **amounts), "restartPolicy": "Always"}


def test_the_worked_example(resources: ResourceMap) -> None:
    requests, mappings = requests_of(
        resources,
        init=[container("i0", **{GPU: "3"}), sidecar("s1", **{GPU: "1"})],
        regular=[container("c2", **{GPU: "1"}), container("c3", **{"cpu": "1", GPU: "2", FPGA: "1"})],
        served={GPU, FPGA},
    )
    assert requests == [
        ("container-1-request-0", "gpu", 1),
        ("container-2-request-0", "gpu", 1),
        ("container-3-request-1", "fpga", 1),
        ("container-3-request-2", "gpu", 2),
    ]
    assert mappings == [
        ("c3", FPGA, "container-3-request-1"),
        ("s1", GPU, "container-1-request-0"),
        ("c2", GPU, "container-2-request-0"),
        ("c3", GPU, "container-3-request-2"),
        ("i0", GPU, "container-1-request-0"),
        ("i0", GPU, "container-2-request-0"),
        ("i0", GPU, "container-3-request-2"),
    ]


def test_init_containers_share_the_largest_remainder(resources: ResourceMap) -> None:
    requests, mappings = requests_of(
        resources,
        init=[container("i0", **{GPU: "3"}), container("i1", **{GPU: "4"}), container("i2", **{GPU: "4"})],
        regular=[container("c3", **{GPU: "1"})],
        served={GPU},
    )
    assert requests == [("container-1-request-0", "gpu", 3), ("container-3-request-0", "gpu", 1)]
    assert mappings[0] == ("c3", GPU, "container-3-request-0")
    assert {each for each in mappings[1:] if each[2] != "container-3-request-0"} == {
        (name, GPU, "container-1-request-0") for name in ("i0", "i1", "i2")
    }


def test_earlier_sidecars_are_not_reused(resources: ResourceMap) -> None:
    requests, mappings = requests_of(
        resources,
        init=[sidecar("s0", **{GPU: "2"}), container("i1", **{GPU: "2"})],
        regular=[container("c2")],
        served={GPU},
    )
    assert requests == [("container-0-request-0", "gpu", 2), ("container-1-request-0", "gpu", 2)]
    assert mappings == [("s0", GPU, "container-0-request-0"), ("i1", GPU, "container-1-request-0")]


def test_only_what_devices_serve_there_and_sorted_as_text(resources: ResourceMap) -> None:
    many = [container(f"c{n}", **{GPU: "1", FPGA: "1"}) for n in range(11)]
    requests, _ = requests_of(resources, init=[], regular=many, served={GPU, "example.com/unknown"})
    assert {name for _, name, _ in requests} == {"gpu"}
    assert [name for name, _, _ in requests][:3] == [
        "container-0-request-1",
        "container-1-request-1",
        "container-10-request-1",
    ]


def test_a_map_that_is_switched_off_serves_nothing():
    resources = ResourceMap(enabled=False)
    resources.put_class({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}})
    assert not resources
    resources = ResourceMap()
    resources.put_class({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}})
    assert resources.class_of("example.com/gpu") == "gpu"
    resources.disable()
    resources.put_class({"metadata": {"name": "gpu"}, "spec": {}})
    resources.remove_class("gpu")
    assert resources.class_of("example.com/gpu") is resources.class_of("deviceclass.resource.kubernetes.io/gpu") is None
