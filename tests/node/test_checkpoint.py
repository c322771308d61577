"""The checkpoint of the DRA manager: the kubelet's form, byte for byte where it is known."""

import json
import os
import zlib

import pytest

from dray.driver.claims import ClaimReference
from dray.node.checkpoint import Checkpoint, ClaimState, DriverState, decode, encode
from dray.node.devices import PreparedDevice
from dray.node.errors import CheckpointError
from tests.damage import DAMAGES

EMPTY = (
    rb'{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",'
    rb'\"ClaimInfoStateList\":[]}","Checksum":2361995144}'
)
STATE = ClaimState(
    ClaimReference("default", "c", "uid-1"),
    frozenset({"pod-1", "pod-2"}),
    {
        "gpu.example.com": DriverState(
            (
                PreparedDevice("pool", "gpu-0", ("a", "b"), ("x.com/gpu=ü<0>",), "share"),
                PreparedDevice("pool", "gpu-1"),
            )
        ),
        "accounting.example.com": DriverState((), ("*",)),
    },
)


def test_an_empty_checkpoint_has_the_bytes_and_the_checksum_of_a_kubelets():
    assert encode([]) == EMPTY
    assert decode(EMPTY) == []


def test_claims_come_back_as_they_were():
    assert decode(encode([STATE])) == [STATE]


def test_claims_are_written_under_the_names_of_a_kubelet():
    file = json.loads(encode([STATE]))
    [claim] = json.loads(file["Data"])["ClaimInfoStateList"]
    assert claim == {
        "ClaimUID": "uid-1",
        "ClaimName": "c",
        "Namespace": "default",
        "PodUIDs": {"pod-1": {}, "pod-2": {}},
        "DriverState": {
            "gpu.example.com": {
                "Devices": [
                    {
                        "PoolName": "pool",
                        "DeviceName": "gpu-0",
                        "ShareID": "share",
                        "RequestNames": ["a", "b"],
                        "CDIDeviceIDs": ["x.com/gpu=ü<0>"],
                    },
                    {
                        "PoolName": "pool",
                        "DeviceName": "gpu-1",
                        "ShareID": None,
                        "RequestNames": None,
                        "CDIDeviceIDs": None,
                    },
                ]
            },
            "accounting.example.com": {"Devices": [], "skipNodeOperations": ["*"]},
        },
    }


def test_a_checkpoint_that_escapes_characters_as_go_does_is_read():
    data = json.loads(encode([STATE]))["Data"].replace("<", "\\u003c").replace(">", "\\u003e")
    content = json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode()
    assert decode(content) == [STATE]


def test_a_missing_file_is_made_and_a_later_one_replaces_it(tmp_path):
    path = tmp_path / "dra_manager_state"
    assert Checkpoint(path).load() == []
    assert path.read_bytes() == EMPTY
    Checkpoint(path).save([STATE])
    assert Checkpoint(path).load() == [STATE]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is corrupt"),
        (EMPTY[:-5], "is corrupt"),
        (EMPTY.replace(b"2361995144", b"2361995145"), "its checksum is wrong"),
        (EMPTY.replace(b"DRACheckpoint", b"DRBCheckpoint"), "its checksum is wrong"),
        (json.dumps({"Data": "{}", "Checksum": zlib.crc32(b"{}")}).encode(), "is corrupt"),
    ],
)
def test_a_corrupt_file_is_refused_with_a_way_out(tmp_path, content, said):
    path = tmp_path / "dra_manager_state"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=said) as caught:
        Checkpoint(path).load()
    assert "drain this node, remove the file and start again" in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_never_an_empty_one(tmp_path, damage):
    path = tmp_path / "dra_manager_state"
    Checkpoint(path).save([STATE])
    DAMAGES[damage](path)
    before = identity(path)
    with pytest.raises(CheckpointError, match="drain this node, remove the file and start again"):
        Checkpoint(path).load()
    assert identity(path) == before


def identity(path):
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


async def test_an_agent_with_a_damaged_checkpoint_says_so_and_goes_on_once_it_is_repaired(machine):
    await machine.stop()
    path = machine.root / "dra_manager_state"
    path.rename(machine.root / "kept")
    path.symlink_to("nothing")
    with pytest.raises(CheckpointError, match="dra_manager_state cannot be read \\(is a symbolic link\\)"):
        await machine.start()
    (machine.root / "kept").rename(path)
    await machine.start()
