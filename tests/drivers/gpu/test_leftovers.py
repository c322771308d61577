"""What released claims have left: files on disk, the devices that are affected, and the claims that must wait."""

import pytest

from dray.drivers.devices.gpu import Gpu
from dray.drivers.gpu.claim_state import ClaimState, MpsState, PartitionState, TimeSlicedGpu
from dray.drivers.gpu.discovery import FoundGpu, possible_partitions
from dray.drivers.gpu.leftovers import Leftover, Leftovers
from tests.damage import DAMAGES

from .machines import gpus_of

GPU: Gpu = gpus_of("p5.48xlarge", 1)[0]
FOUND = FoundGpu(GPU, True, True, possible_partitions(GPU))
BIG, LOW, HIGH = "gpu-0-mig-7g80gb-0-0", "gpu-0-mig-3g40gb-9-0", "gpu-0-mig-3g40gb-9-4"


def partition(**members):
    return ClaimState(partitions=(PartitionState(HIGH, GPU.uuid, 9, 4, 4, **members),))


def mps(**members):
    return ClaimState(mps=(MpsState(id="x", **{"devices": (GPU.uuid,), "gpus": (GPU.uuid,), **members}),))


def leftover(state):
    return Leftover(uid="u", about="claim default/a", state=state, reason="broken")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ClaimState(time_sliced=(TimeSlicedGpu(GPU.uuid, 3),)), {"gpu-0": "time-slice", LOW: "time-slice"}),
        (mps(), {"gpu-0": "mps", HIGH: "mps"}),
        (mps(devices=("GPU-other",), gpus=()), {"gpu-0": "", HIGH: ""}),
        (partition(), {"gpu-0": "partition", BIG: "partition", HIGH: "partition", LOW: ""}),
        (partition(is_destroyed=True), {"gpu-0": "mig-mode", BIG: "mig-mode", LOW: "mig-mode"}),
    ],
    ids=["time slice", "MPS", "MPS elsewhere", "partition", "MIG mode"],
)
def test_a_leftover_names_its_problem_for_each_affected_device(state, expected):
    assert {device: leftover(state).problem(FOUND, device) for device in expected} == expected


def test_a_mig_mode_that_stays_on_hinders_the_whole_gpu_alone():
    left = leftover(partition(is_destroyed=True))
    assert (left.hinders(FOUND, "gpu-0"), left.hinders(FOUND, LOW)) == (True, False)


def test_a_leftover_blocks_only_claims_on_the_same_or_overlapping_devices():
    whole = ClaimState(sharing={GPU.uuid: "none"})
    low = ClaimState(partitions=(PartitionState(LOW, GPU.uuid, 9, 0, 4),))
    assert leftover(partition()).blocks(whole)
    assert leftover(partition()).blocks(partition())
    assert not leftover(partition()).blocks(low)
    assert leftover(mps()).blocks(whole)
    # Whether the mode can be switched is found out when the whole GPU is prepared.
    assert not leftover(partition(is_destroyed=True)).blocks(whole)


def test_files_are_read_again_until_the_machine_is_started_anew(tmp_path):
    left = Leftovers(tmp_path, "first")
    left.put(leftover(mps()))
    again = Leftovers(tmp_path, "first")
    again.read()
    assert again.known["u"].state == mps()
    another_boot = Leftovers(tmp_path, "second")
    another_boot.read()
    assert another_boot.known == {}
    again.read()
    assert again.known == {}


def test_a_file_that_cannot_be_read_is_removed(tmp_path, caplog):
    left = Leftovers(tmp_path, "")
    left.put(leftover(mps()))
    (path,) = (tmp_path / "leftovers").iterdir()
    path.write_text("?")
    left.read()
    assert (left.known, path.exists()) == ({}, False)
    assert "cannot be read, and is removed" in caplog.text
    left.put(leftover(mps()))
    left.remove("u")
    assert (left.known, list((tmp_path / "leftovers").iterdir())) == ({}, [])


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_told_about_and_the_others_are_read(tmp_path, damage, caplog):
    leftovers = Leftovers(tmp_path, "boot")
    for uid in ("bad", "good"):
        leftovers.put(Leftover(uid=uid, about="claim x", state=ClaimState()))
    DAMAGES[damage](tmp_path / "leftovers/bad.json")
    leftovers = Leftovers(tmp_path, "boot")
    leftovers.read()
    assert set(leftovers.known) == {"good"}
    assert "leftovers/bad.json cannot be read, and is removed" in caplog.text
