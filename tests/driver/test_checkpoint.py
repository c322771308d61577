"""Records of claims on disk: versions, checksums, restarts of the driver and of the machine, damage."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from dray.driver.checkpoint import Checkpoint
from dray.driver.claims import AllocatedDevice, ClaimReference
from dray.driver.errors import CheckpointCorrupt, ClaimFailed, DriverError
from tests.damage import DAMAGES
from tests.driver.node import NAME, Lamps, Node

CLAIM = ClaimReference("ns", "claim", "u-1")
DEVICES = (AllocatedDevice("pool", "gpu-0", "gpu/large", "share", True, {"memory": "1Gi"}),)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "claims"


def opened(directory: Path, boot_id: str = "boot-1") -> Checkpoint:
    checkpoint = Checkpoint(directory, boot_id)
    checkpoint.open()
    return checkpoint


def test_a_record_is_read_as_it_was_written_and_readable_by_others(directory: Path) -> None:
    record = opened(directory).begin(CLAIM, DEVICES, "attempt-1", {"slot": [1, None]})
    assert opened(directory).read("u-1") == record
    claim = record.claim()
    assert (claim.reference, claim.devices, claim.state, claim.is_complete) == (
        CLAIM,
        DEVICES,
        {"slot": [1, None]},
        False,
    )
    assert claim.devices[0].consumed_capacity == {"memory": "1Gi"}
    (path,) = directory.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    stored = json.loads(path.read_text())
    assert list(stored) == ["v1"]
    assert stored["v1"]["checksum"] == zlib.crc32(stored["v1"]["data"].encode())
    assert json.loads(stored["v1"]["data"])["uid"] == "u-1"


def test_a_newer_version_beside_ours_is_left_alone(directory: Path) -> None:
    checkpoint = opened(directory)
    record = checkpoint.begin(CLAIM, DEVICES, "a", None)
    path = directory / "u-1.json"
    path.write_text(json.dumps({"v2": {"anything": 1}, **json.loads(path.read_text())}))
    assert checkpoint.read("u-1") == record


def test_unfinished_writes_are_swept_and_are_no_records(directory: Path) -> None:
    opened(directory).begin(CLAIM, DEVICES, "a", None)
    (directory / ".half.tmp").write_text("{")
    checkpoint = opened(directory)
    assert checkpoint.uids() == ["u-1"]
    assert [path.name for path in directory.iterdir()] == ["u-1.json"]


def damage(path: Path, kind: str) -> None:
    stored = json.loads(path.read_text())
    damaged: dict[str, Any] = {
        "truncated": path.read_text()[:-9],
        "empty": "",
        "checksum": json.dumps({"v1": {**stored["v1"], "checksum": 1}}),
        "version": json.dumps({"v9": stored["v1"]}),
        "type": json.dumps({"v1": {"data": "[]", "checksum": zlib.crc32(b"[]")}}),
    }
    path.write_text(damaged[kind])


@pytest.mark.parametrize("kind", ["truncated", "empty", "checksum", "version", "type"])
def test_a_damaged_record_says_where_it_is_and_what_to_do(directory: Path, kind: str) -> None:
    checkpoint = opened(directory)
    checkpoint.begin(CLAIM, DEVICES, "a", None)
    damage(directory / "u-1.json", kind)
    with pytest.raises(CheckpointCorrupt, match=r"claims/u-1\.json cannot be read .* then remove the file"):
        checkpoint.read("u-1")
    assert list(checkpoint.readable()) == []


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_record_that_was_replaced_is_never_a_missing_one(directory: Path, kind: str) -> None:
    checkpoint = opened(directory)
    checkpoint.begin(CLAIM, DEVICES, "a", None)
    DAMAGES[kind](directory / "u-1.json")
    with pytest.raises(CheckpointCorrupt, match=r"claims/u-1\.json cannot be read .* then remove the file"):
        checkpoint.read("u-1")
    assert checkpoint.recorded_claims().unreadable == ("u-1",)


def test_the_record_of_another_claim_is_not_believed(directory: Path) -> None:
    checkpoint = opened(directory)
    checkpoint.begin(CLAIM, DEVICES, "a", None)
    (directory / "u-1.json").rename(directory / "u-2.json")
    with pytest.raises(CheckpointCorrupt, match="it is that of claim u-1"):
        checkpoint.read("u-2")


@pytest.mark.parametrize("kind", ["truncated", "directory", "link to nothing"])
async def test_a_driver_starts_beside_a_damaged_record_and_names_it(
    kubelet_node: Node, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = await kubelet_node.claim("lamp-0"), await kubelet_node.claim("lamp-1")
    async with kubelet_node.plugin(Lamps()) as plugin:
        await plugin.prepare(broken, other)
    path = kubelet_node.root / "plugins" / NAME / "claims" / f"{broken['uid']}.json"
    DAMAGES[kind](path)
    (path.parent / ".left.tmp").mkdir()
    async with kubelet_node.plugin(Lamps()) as plugin:
        assert f"claim {broken['uid']}: the record {path} cannot be read" in caplog.text
        answered = await plugin.unprepare(broken, other)
        assert "then remove the file" in answered[broken["uid"]].error
        assert answered[other["uid"]].error == ""
    assert os.path.lexists(path)


def test_a_file_in_the_place_of_the_records_is_told(directory: Path) -> None:
    directory.touch()
    with pytest.raises(DriverError, match="claims is not a directory: the records of claims belong there"):
        opened(directory)


@pytest.mark.parametrize("uid", ["", "../u", ".hidden", "a/b"])
def test_a_uid_does_not_lead_out_of_the_directory(directory: Path, uid: str) -> None:
    with pytest.raises(ClaimFailed, match="is not the uid of a claim"):
        opened(directory).read(uid)


def test_a_state_that_json_does_not_hold_is_refused(directory: Path) -> None:
    with pytest.raises(ClaimFailed, match=r"the state of claim ns/claim .* cannot be written as JSON"):
        opened(directory).begin(CLAIM, DEVICES, "a", object())


async def test_a_damaged_record_fails_its_claim_and_no_other(kubelet_node: Node) -> None:
    async with kubelet_node.plugin(Lamps()) as plugin:
        broken, other = await kubelet_node.claim("lamp-0"), await kubelet_node.claim("lamp-1")
        await plugin.prepare(broken)
        path = kubelet_node.root / "plugins" / NAME / "claims" / f"{broken['uid']}.json"
        damage(path, "checksum")
        answered = await plugin.unprepare(broken, other)
        assert "cannot be read (ValueError: the checksum differs)" in answered[broken["uid"]].error
        assert answered[other["uid"]].error == ""
        path.unlink()
        assert (await plugin.unprepare(broken))[broken["uid"]].error == ""
        assert kubelet_node.specs() == []


async def test_a_driver_that_starts_again_knows_what_it_prepared(kubelet_node: Node) -> None:
    claim = await kubelet_node.claim("lamp-0")
    async with kubelet_node.plugin(Lamps()) as plugin:
        await plugin.prepare(claim)
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        await plugin.unprepare(claim)
    (released,) = driver.unprepared
    assert (released.state, released.is_complete) == ({"lamps": ["lamp-0"]}, True)


async def test_after_a_start_of_the_machine_nothing_is_prepared(kubelet_node: Node) -> None:
    boot_id = kubelet_node.root / "boot_id"
    boot_id.write_text("boot-1\n")
    claim = await kubelet_node.claim("lamp-0")
    async with kubelet_node.plugin(Lamps(), boot_id_file=boot_id) as plugin:
        await plugin.prepare(claim)
    boot_id.write_text("boot-2\n")
    driver = Lamps()
    async with kubelet_node.plugin(driver, boot_id_file=boot_id) as plugin:
        await plugin.prepare(claim)
        await plugin.unprepare(claim)
    previous = driver.prepared[0].previous
    assert previous is not None
    assert (previous.state, previous.is_complete) == ({"lamps": ["lamp-0"]}, False)
    assert driver.unprepared[0].is_complete


def test_all_records_are_read_and_damaged_ones_named(directory: Path) -> None:
    checkpoint = opened(directory)
    record = checkpoint.begin(CLAIM, DEVICES, "attempt-1", None)
    (directory / "u-2.json").write_text("?")
    found = checkpoint.recorded_claims()
    assert (found.claims, found.unreadable) == ((record.claim(),), ("u-2",))
