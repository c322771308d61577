"""The claim and pod of `dray run`, without a server."""

from __future__ import annotations

from typing import Any

import click
import pytest

from dray.cli.run import _able, _with_images
from dray.cli.run_objects import DeviceRequest, Run, attribute

GPUS = DeviceRequest("gpu", "gpu.nvidia.com", 2, memory="20Gi", selectors=("true",))


def test_requests_and_what_their_devices_have_in_common() -> None:
    cpus = DeviceRequest("cpu", "dra.cpu", cpus=4)
    claim = Run("r", "n", ["true"], [GPUS, cpus], [attribute("pcieRoot"), attribute("example.com/rail")]).claim()
    assert claim["spec"]["devices"] == {
        "requests": [
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": "gpu.nvidia.com",
                    "count": 2,
                    "selectors": [{"cel": {"expression": "true"}}],
                    "capacity": {"requests": {"memory": "20Gi"}},
                },
            },
            {
                "name": "cpu",
                "exactly": {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": "4"}}},
            },
        ],
        # CPUs hang below no PCIe root.
        "constraints": [
            {"requests": ["gpu"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},
            {"requests": ["gpu"], "matchAttribute": "example.com/rail"},
        ],
    }


def test_a_pod_with_an_image_and_one_without_devices() -> None:
    asked = Run("r", "n", ["python", "train.py"], [GPUS], image="python:3.12", node="big", priority_class="urgent")
    spec = asked.pod()["spec"]
    (container,) = spec["containers"]
    assert (container["image"], container["command"]) == ("python:3.12", ["python", "train.py"])
    assert container["resources"] == {"claims": [{"name": "devices"}]}
    assert spec["resourceClaims"] == [{"name": "devices", "resourceClaimName": "r"}]
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"kubernetes.io/hostname": "big"}, "urgent")
    plain = Run("", "n", ["true"], working_dir="/home").pod()
    assert plain["metadata"]["generateName"] == "run-"
    assert "resourceClaims" not in plain["spec"]
    assert plain["spec"]["containers"][0]["workingDir"] == "/home"


def node(name: str, runtime: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}


def test_a_command_goes_where_commands_or_images_run() -> None:
    here, fleet, images = node("here", "process://3.11"), node("fleet", "simulated://1"), node("pods", "podman://4.3")
    assert _able([here, node("there", "process://3.11")]) == []
    assert _able([here, fleet, images]) == ["here"]
    assert _able([fleet]) == []
    with pytest.raises(click.ClickException, match="run images: give --image"):
        _able([images])
    assert _with_images([here, fleet, images]) == ["fleet", "pods"]
    assert _with_images([images]) == []
    with pytest.raises(click.ClickException, match="leave out --image, or start a node with --runtime podman"):
        _with_images([here])
    terms = Run("r", "n", ["true"], among=["a", "b"]).pod()["spec"]["affinity"]["nodeAffinity"]
    (required,) = terms.values()
    assert [each["matchFields"][0]["values"] for each in required["nodeSelectorTerms"]] == [["a"], ["b"]]
