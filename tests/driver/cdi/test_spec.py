"""CDI specs: the lowest version that serves, strict reading, and every rule of names and edits."""

import json
from typing import Any

import pytest

from dray.driver.cdi import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice, variables
from dray.driver.cdi.names import check_qualified
from dray.driver.cdi.spec import Spec, SpecDevice, decode, encode
from dray.driver.errors import InvalidSpec

ENV = ContainerEdits(env=variables({"A": "1"}))


def spec(edits: ContainerEdits = ENV, *, name: str = "gpu0", kind: str = "vendor.com/class", **members: Any) -> Spec:
    return Spec(kind, (SpecDevice(name, edits),), **members)


@pytest.mark.parametrize(
    ("made", "version"),
    [
        (spec(), "0.3.0"),
        (spec(ContainerEdits(mounts=(Mount("/a", "/b"),))), "0.3.0"),
        (spec(ContainerEdits(mounts=(Mount("/a", "/b", type="bind"),))), "0.4.0"),
        (spec(ContainerEdits(device_nodes=(DeviceNode("/dev/a"),))), "0.3.0"),
        (spec(ContainerEdits(device_nodes=(DeviceNode("/dev/a", host_path="/dev/b"),))), "0.5.0"),
        (spec(name="0gpu"), "0.5.0"),
        (spec(kind="vendor.com/cl.ass"), "0.6.0"),
        (spec(annotations={"a": "b"}), "0.6.0"),
        (spec(ContainerEdits(additional_gids=(1,))), "0.7.0"),
        (spec(ContainerEdits(intel_rdt=IntelRdt(clos_id="x"))), "0.7.0"),
        (spec(ContainerEdits(intel_rdt=IntelRdt(enable_monitoring=True))), "1.1.0"),
        (spec(ContainerEdits(net_devices=(NetDevice("eth0"),))), "1.1.0"),
        (spec(container_edits=ContainerEdits(additional_gids=(1,))), "0.7.0"),
    ],
)
def test_a_spec_claims_no_newer_version_than_it_needs(made: Spec, version: str) -> None:
    written = encode(made)
    document = json.loads(written)
    assert document["cdiVersion"] == version
    assert next(iter(document)) == "cdiVersion"
    assert encode(decode(written)) == written


def test_members_have_the_names_of_cdi() -> None:
    edits = ContainerEdits(
        env=("A=1",),
        device_nodes=(DeviceNode("/dev/a", "/dev/b", "c", 1, 0, 0o660, "rw", 0, 1),),
        net_devices=(NetDevice("eth0", "net0"),),
        mounts=(Mount("/a", "/b", ("ro", "bind"), "bind"),),
        hooks=(Hook("createContainer", "/bin/x", ("x", "-y"), ("B=2",), 5),),
        intel_rdt=IntelRdt("c", "L3:0=f", "MB:0=1", ("s",), True),
        additional_gids=(7,),
    )
    assert json.loads(encode(spec(edits)))["devices"][0]["containerEdits"] == {
        "env": ["A=1"],
        "deviceNodes": [
            {
                "path": "/dev/a",
                "hostPath": "/dev/b",
                "type": "c",
                "major": 1,
                "minor": 0,
                "fileMode": 0o660,
                "permissions": "rw",
                "uid": 0,
                "gid": 1,
            }
        ],
        "netDevices": [{"hostInterfaceName": "eth0", "name": "net0"}],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro", "bind"], "type": "bind"}],
        "hooks": [{"hookName": "createContainer", "path": "/bin/x", "args": ["x", "-y"], "env": ["B=2"], "timeout": 5}],
        "intelRdt": {
            "closID": "c",
            "l3CacheSchema": "L3:0=f",
            "memBwSchema": "MB:0=1",
            "schemata": ["s"],
            "enableMonitoring": True,
        },
        "additionalGids": [7],
    }


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (spec(kind="1vendor.com/class"), "kind '1vendor.com/class'"),
        (spec(kind="vendor.com"), "kind 'vendor.com'"),
        (spec(kind="vendor.com/class-"), "kind 'vendor.com/class-'"),
        (spec(name="gpu 0"), "device name 'gpu 0'"),
        (spec(name="gpu-"), "device name 'gpu-'"),
        (Spec("v.com/c", ()), "there must be one at least"),
        (Spec("v.com/c", (SpecDevice("a", ENV), SpecDevice("a", ENV))), "the name 'a' is there twice"),
        (spec(ContainerEdits()), "devices[0].containerEdits: must not be empty"),
        (spec(ContainerEdits(env=("A",))), "devices[0].containerEdits.env[0]: 'A' is not KEY=value"),
        (spec(ContainerEdits(env=("=A",))), "is not KEY=value"),
        (spec(ContainerEdits(device_nodes=(DeviceNode(""),))), "deviceNodes[0].path"),
        (spec(ContainerEdits(device_nodes=(DeviceNode("/a", type="x"),))), "'x' is none of b, c, u, p"),
        (spec(ContainerEdits(device_nodes=(DeviceNode("/a", permissions="rx"),))), "permissions: 'rx'"),
        (spec(ContainerEdits(device_nodes=(DeviceNode("/a", uid=-1),))), "uid: -1 is out of range"),
        (spec(ContainerEdits(mounts=(Mount("/a", ""),))), "needs hostPath and containerPath"),
        (spec(ContainerEdits(hooks=(Hook("never", "/x"),))), "hookName: 'never'"),
        (spec(ContainerEdits(hooks=(Hook("poststop", ""),))), "hooks[0].path"),
        (spec(ContainerEdits(net_devices=(NetDevice("a"), NetDevice("b", "a")))), "netDevices[1]: the interface"),
        (spec(ContainerEdits(additional_gids=(2**32,))), "additionalGids"),
        (spec(ContainerEdits(intel_rdt=IntelRdt(clos_id="../x"))), "closID: '../x' is not a file name"),
        (spec(container_edits=ContainerEdits(env=("A",))), "containerEdits.env[0]"),
        (spec(annotations={"a": "b" * 300_000}), "annotations: longer than"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(made: Spec, said: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        encode(made)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"unknown": 1}, "unknown field `unknown`"),
        ({"cdiVersion": "2.0.0"}, "cdiVersion '2.0.0'"),
        ({"cdiVersion": "0.3.0", "annotations": {"a": "b"}}, "the content needs 0.6.0"),
        ({"devices": [{"name": "a", "containerEdits": {"envs": []}}]}, "unknown field `envs`"),
    ],
)
def test_reading_is_strict(changes: dict[str, Any], said: str) -> None:
    document = {**json.loads(encode(spec())), **changes}
    with pytest.raises(InvalidSpec) as raised:
        decode(json.dumps(document).encode())
    assert said in str(raised.value)


def test_a_leading_v_is_tolerated_when_reading() -> None:
    document = {**json.loads(encode(spec())), "cdiVersion": "v1.0.0"}
    assert decode(json.dumps(document).encode()).cdi_version == "v1.0.0"


@pytest.mark.parametrize("name", ["vendor.com/class=a", "v/c=0:a_b.c-d"])
def test_qualified_names(name: str) -> None:
    check_qualified(name)


@pytest.mark.parametrize("name", ["vendor.com=a", "v/c", "v/c=", "v/c=-a", "/c=a", "v/c=a/b"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidSpec):
        check_qualified(name)
