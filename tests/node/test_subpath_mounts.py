"""SubPaths of volumes are mounted by what was opened, and leave no mount behind."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from dray.node import subpath_mounts
from dray.node.errors import SetupError
from dray.node.subpath_mounts import SubpathMounts
from tests.process.swapping import swapping

RACES = 2000
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def mounts(tmp_path):
    made = SubpathMounts(tmp_path / "pods")
    yield made
    subpath_mounts.release_all(tmp_path)
    assert not mounted_below(tmp_path)


@pytest.fixture
def volume(tmp_path):
    made = tmp_path / "volume"
    (made / "d/sub").mkdir(parents=True)
    (made / "d/sub/file").write_text("inside")
    made.chmod(0o2770)
    return made


@pytest.fixture
def outside(tmp_path):
    made = tmp_path / "outside"
    (made / "sub").mkdir(parents=True)
    (made / "sub/file").write_text("outside")
    return made


def mounted_below(path: Path) -> list[str]:
    places = (line.split(" ", 5)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [place for place in places if place.startswith(f"{path}/")]


def test_directories_and_files_are_given_and_missing_directories_made(mounts, volume):
    directory = mounts.make("uid", "main", volume, "d/sub")
    file = mounts.make("uid", "main", volume, "d/sub/file")
    assert ((directory / "file").read_text(), file.read_text()) == ("inside", "inside")
    assert list(mounts.make("uid", "other", volume, "new/deeper").iterdir()) == []
    # As of the volume itself: its containers are to write there.
    assert oct((volume / "new/deeper").stat().st_mode & 0o7777) == "0o2770"


@pytest.mark.parametrize(
    ("subpath", "said"),
    [
        ("out/sub", "subPath out/sub leads out of the volume"),
        ("out/new", "subPath out/new leads out of the volume"),
        ("../outside", "subPath ../outside leads out of the volume"),
        ("/etc", "subPath /etc leads out of the volume"),
        ("near/new", "subPath near/new leads to a file that does not exist"),
        ("d/sub/file/x", "subPath d/sub/file/x cannot be used: Not a directory"),
        ("a\0b", "subPath 'a\\x00b' cannot be used: embedded null byte"),
    ],
)
def test_what_leads_out_of_the_volume_is_refused_with_the_reason(mounts, volume, outside, subpath, said):
    (volume / "out").symlink_to(outside)
    (volume / "near").symlink_to("missing")
    with pytest.raises(SetupError) as caught:
        mounts.make("uid", "main", volume, subpath)
    assert (caught.value.reason, str(caught.value)) == ("CreateContainerConfigError", said)
    assert [path.name for path in outside.iterdir()] == ["sub"]


@root_only
def test_release_unmounts_what_a_container_has_and_leaves_the_volume(mounts, volume, tmp_path):
    place, other = mounts.make("uid", "main", volume, "d"), mounts.make("uid", "other", volume, "d")
    assert sorted(mounted_below(tmp_path)) == sorted(map(str, (place, other)))
    mounts.release("uid", "main")
    assert mounted_below(tmp_path) == [str(other)]
    # As an agent that was killed leaves them to the next one.
    SubpathMounts(tmp_path / "pods").release("uid")
    assert not mounted_below(tmp_path)
    assert (volume / "d/sub/file").read_text() == "inside"
    assert not list(tmp_path.glob("pods/*/*"))
    mounts.release("unknown")


@root_only
def test_a_subpath_that_is_swapped_all_the_time_never_leads_out(mounts, volume, outside):
    (volume / "link").symlink_to(outside)
    (volume / "d/out").symlink_to(outside / "sub")
    seen, escaped, done = set(), 0, 0
    with swapping(volume, ("d", "link"), ("d/sub", "d/out")):
        while done < RACES or not (escaped and seen):
            with suppress(OSError):
                # The race is a real one: by its plain path the file of the machine is found.
                escaped += (volume / "d/sub/file").read_text() == "outside"
            with suppress(SetupError):
                seen.add((mounts.make("uid", "main", volume, "d/sub") / "file").read_text())
            with suppress(SetupError):
                mounts.make("uid", "main", volume, "d/new/deeper")
            mounts.release("uid", "main")
            done += 1
    assert seen == {"inside"}
    assert [path.name for path in outside.iterdir()] == ["sub"]
