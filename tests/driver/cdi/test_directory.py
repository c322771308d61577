"""The directory of CDI specs: whole files, and nothing left of those that are removed."""

import os
from pathlib import Path

import pytest

from dray.driver.cdi.directory import CdiDirectory
from dray.driver.cdi.edits import ContainerEdits
from dray.driver.cdi.spec import Spec, SpecDevice

SPEC = Spec("x.com/gpu", (SpecDevice("a", ContainerEdits(env=("A=1",))),))


def test_a_spec_is_written_and_removed(tmp_path: Path) -> None:
    directory = CdiDirectory(tmp_path / "cdi")
    assert directory.names() == []
    directory.write("x.com-gpu_1", SPEC)
    directory.write("x.com-gpu_1", SPEC)
    assert directory.names() == ["x.com-gpu_1"]
    assert directory.remove("x.com-gpu_1")
    assert not directory.remove("x.com-gpu_1")
    assert os.listdir(directory.path) == []


def test_what_a_killed_writer_left_goes_with_its_claim_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = CdiDirectory(tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", _killed)
        killed.setattr(os, "unlink", lambda name: None)
        for name in ("x.com-gpu_1", "x.com-gpu_2"):
            with pytest.raises(SystemExit):
                directory.write(name, SPEC)
    assert directory.names() == []
    assert len(os.listdir(tmp_path)) == 2
    assert not directory.remove("x.com-gpu_1")
    [left] = os.listdir(tmp_path)
    assert left.startswith("spec.x.com-gpu_2.")


def _killed(*arguments: object) -> None:
    raise SystemExit
