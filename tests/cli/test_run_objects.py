"""The claim and pod of `dray run`, without a server."""

from __future__ import annotations

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
