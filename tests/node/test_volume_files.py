"""Files of configMap, secret, downwardAPI and projected volumes: replaced at once, whatever was put in their place."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from dray.node.errors import SetupError
from dray.node.volume_files import File, write_files
from tests.process.swapping import swapping

OLD = {"a": File(b"1", 0o644), "deep/b": File(b"2", 0o600)}
NEW = {"a": File(b"3", 0o644)}


@pytest.fixture
def volume(tmp_path):
    made = tmp_path / "volume"
    made.mkdir()
    return made


@pytest.fixture
def outside(tmp_path):
    made = tmp_path / "outside"
    made.mkdir()
    (made / "a").write_text("kept")
    return made


def data(volume):
    return os.readlink(volume / "..data")


def test_files_are_written_replaced_and_left_alone_where_nothing_changed(volume):
    write_files(volume, OLD)
    first = data(volume)
    assert {path.name for path in volume.iterdir()} == {first, "..data", "a", "deep"}
    assert ((volume / "a").read_text(), (volume / "deep/b").read_text()) == ("1", "2")
    assert (volume / "deep/b").stat().st_mode & 0o777 == 0o600
    write_files(volume, OLD)
    assert data(volume) == first
    write_files(volume, NEW)
    assert {path.name for path in volume.iterdir()} == {data(volume), "..data", "a"}
    assert data(volume) != first
    assert (volume / "a").read_text() == "3"


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "..x", "..data", "a/../b", "", "."])
def test_a_path_that_leads_out_or_hides_is_refused(volume, path):
    with pytest.raises(SetupError, match="leads out of the volume"):
        write_files(volume, {path: File(b"", 0o644)})
    assert not list(volume.iterdir())


def link_to_the_machine(volume, outside):
    (volume / "..data").unlink()
    (volume / "..data").symlink_to(outside)


def link_above(volume, outside):
    (volume / "..data").unlink()
    (volume / "..data").symlink_to(f"../{outside.name}")


def directory_as_data(volume, outside):
    (volume / "..data").unlink()
    (volume / "..data").mkdir()
    (volume / "..data/a").symlink_to(outside / "a")


def directory_in_the_way(volume, outside):
    (volume / "..data_tmp").mkdir()
    (volume / "..data_tmp/out").symlink_to(outside)


def link_in_the_way(volume, outside):
    (volume / "..data_tmp").symlink_to(outside)


def links_as_files(volume, outside):
    (volume / "a").unlink()
    (volume / "a").symlink_to(outside / "a")
    (volume / "other").symlink_to(outside)


def sparse_file(volume, outside):
    with open(volume / "..data/a", "wb") as file:
        file.truncate(1 << 40)


def pipe(volume, outside):
    (volume / "..data/a").unlink()
    os.mkfifo(volume / "..data/a")


@pytest.mark.parametrize(
    "change",
    [
        link_to_the_machine,
        link_above,
        directory_as_data,
        directory_in_the_way,
        link_in_the_way,
        links_as_files,
        sparse_file,
        pipe,
    ],
)
def test_whatever_is_in_the_volume_new_files_come_and_nothing_else_is_touched(volume, outside, change):
    write_files(volume, OLD)
    change(volume, outside)
    write_files(volume, NEW)
    assert {path.name for path in volume.iterdir()} == {data(volume), "..data", "a"}
    assert (volume / "a").read_text() == "3"
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("a", "kept")]


def test_links_that_are_swapped_all_the_time_lead_nowhere(volume, outside):
    write_files(volume, OLD)
    (volume / "..link").symlink_to(outside)
    with swapping(volume, ("..data", "..link"), ("a", "..link")):
        for number in range(500):
            with suppress(OSError):
                write_files(volume, {"a": File(b"%d" % number, 0o644), "deep/b": File(b"", 0o644)})
            with suppress(OSError):
                (volume / "..link").symlink_to(outside)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("a", "kept")]
    write_files(volume, NEW)
    assert (volume / "a").read_text() == "3"


@pytest.mark.parametrize("paths", [("a", "a/b"), ("b", "n" * 300)])
def test_paths_that_cannot_be_written_leave_nothing_at_every_try(volume, paths):
    write_files(volume, OLD)
    before = set(os.listdir(volume))
    with pytest.raises(SetupError):
        write_files(volume, {path: File(b"1", 0o644) for path in paths})
    assert set(os.listdir(volume)) == before
    assert (volume / "a").read_bytes() == b"1"


def test_paths_are_cleaned_as_a_kubelet_cleans_them(volume):
    write_files(volume, {"a/": File(b"1", 0o644), "./b": File(b"2", 0o644), "c//d/.": File(b"3", 0o644)})
    assert {name: (volume / name).read_text() for name in ("a", "b", "c/d")} == {"a": "1", "b": "2", "c/d": "3"}


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b/c", "a/b"), ("a/", "a//b")])
def test_a_path_that_is_a_file_and_a_directory_is_refused_by_name(volume, paths):
    with pytest.raises(SetupError, match=r"^volume volume: a\S* is both a file and the directory of a\S*; change one"):
        write_files(volume, dict.fromkeys(paths, File(b"", 0o644)))
    assert not list(volume.iterdir())


@pytest.mark.parametrize("path", ["x" * 300, "/".join(["d"] * 3000)])
def test_a_path_that_linux_does_not_take_is_refused_by_name(volume, path):
    with pytest.raises(SetupError, match=r"^volume volume: path (x|d/)\S{,110}: File name too long; shorten it"):
        write_files(volume, {path: File(b"", 0o644)})
    assert not list(volume.iterdir())
