"""Paths that somebody else can change at any moment: nothing outside the directory is read, written or removed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dray.process import beneath
from tests.process.swapping import swapping

RACES = int(os.environ.get("DRAY_SYMLINK_RACES", "5000"))
"""Files that are opened, made, changed or removed while names change, with each of the two ways to resolve."""
DEEP = "deep" * 10
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=["openat2", "by component"], autouse=True)
def kernel(request, monkeypatch):
    """Each test runs with the call of the kernel and without it."""
    if request.param == "by component":
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)
    elif not beneath.has_openat2():
        pytest.skip("needs openat2: Linux 5.6 or later")


@pytest.fixture
def volume(tmp_path):
    made = tmp_path / "volume"
    (made / "d/sub").mkdir(parents=True)
    (made / "d/sub/file").write_text("inside")
    yield made
    # Python cannot remove directories as deep as some of these.
    subprocess.run(["rm", "-rf", made], check=True)


@pytest.fixture
def outside(tmp_path):
    made = tmp_path / "outside"
    (made / "sub").mkdir(parents=True)
    (made / "sub/file").write_text("outside")
    return made


def state(path: Path) -> list[tuple[str, int, int, str]]:
    """Everything that can be changed below a directory."""
    found = []
    for entry in sorted((path, *path.rglob("*"))):
        stat = entry.lstat()
        found.append((str(entry), stat.st_mode, stat.st_gid, entry.read_text() if entry.is_file() else ""))
    return found


def read(root: int, path: str) -> str:
    with open(beneath.open_beneath(root, path, os.O_RDONLY), "rb") as file:
        return file.read().decode()


def test_links_are_followed_as_long_as_they_stay_beneath(volume, outside):
    (volume / "link").symlink_to("d/../d/sub")
    (volume / "d/up").symlink_to("../link/file")
    (volume / "absolute").symlink_to(volume / "d")
    (volume / "out").symlink_to(f"../{outside.name}")
    (volume / "around").symlink_to("around")
    with beneath.opened(volume) as root:
        for path in ("d/sub/file", "link/file", "d/up", "./d//sub/file"):
            assert read(root, path) == "inside"
        for path in ("absolute/sub/file", "out/sub/file", "..", "d/../../outside/sub/file", "/etc/hosts"):
            with pytest.raises(OSError) as caught:
                read(root, path)
            assert caught.value.errno == errno.EXDEV, path
        for path, options in (("around", {}), ("d/up", {"links": False}), ("link", {"links": False})):
            with pytest.raises(OSError) as caught:
                beneath.open_beneath(root, path, **options)
            assert caught.value.errno == errno.ELOOP, path
        with pytest.raises(ValueError, match="null byte"):
            beneath.open_beneath(root, "d\0x")


def test_directories_are_made_beneath_with_the_mode_that_was_asked_for(volume, outside):
    (volume / "out").symlink_to(outside)
    (volume / "nothing").symlink_to(outside / "missing")
    (volume / "near").symlink_to("missing")
    (volume / "inner").symlink_to("d")
    before = state(outside)
    with beneath.opened(volume) as root:
        os.close(beneath.make_directories(root, "inner/new/deeper", 0o2775))
        assert oct((volume / "d/new/deeper").stat().st_mode & 0o7777) == "0o2775"
        os.close(beneath.make_directories(root, "d/sub/file", 0o755))
        for path in ("out/new", "nothing", "nothing/new", "near/new", "../new", "/new", "d/sub/file/new"):
            with pytest.raises(OSError):
                beneath.make_directories(root, path, 0o755)
    assert state(outside) == before
    assert {path.name for path in volume.parent.iterdir()} == {"volume", "outside"}
    assert not (volume / "missing").exists()


def test_thousands_of_directories_are_made_in_little_time(volume):
    path = "/".join(["e"] * 2000)
    with beneath.opened(volume) as root:
        started = time.process_time()
        os.close(beneath.make_directories(root, path, 0o755))
        os.close(beneath.make_directories(root, f"{path[:-2]}/f", 0o755))
        assert time.process_time() - started < 2.0
        with pytest.raises(OSError, match="File name too long"):
            beneath.make_directories(root, "g/" * 3000, 0o755)
    assert not (volume / "g").exists()


def test_reads_are_bounded_and_take_regular_files_alone(volume):
    with open(volume / "sparse", "wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(volume / "pipe")
    (volume / "link").symlink_to("d/sub/file")
    assert beneath.read_regular(volume / "d/sub/file", 6) == b"inside"
    assert beneath.read_regular(volume / "link", 6, links=True) == b"inside"
    assert beneath.read_start(volume / "sparse", 10) == bytes(10)
    refused = {"sparse": "more than 4096 bytes", "pipe": "not a regular file", "d": "not a regular", "link": "symbolic"}
    for name, said in refused.items():
        with pytest.raises(OSError, match=said):
            beneath.read_regular(volume / name, 4096)


def test_a_tree_of_any_depth_is_walked_and_removed_without_following_links(volume, outside):
    (volume / "d/out").symlink_to(outside)
    (volume / "d/to-file").symlink_to(outside / "sub/file")
    before = state(outside)
    # Deeper than Python recurses, and longer than a path may be.
    here = os.open(volume / "d", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir(DEEP, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        following = os.open(DEEP, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    os.close(here)
    with beneath.opened(volume) as root:
        names = [entry.name for _, entry in beneath.walk(root)]
    assert names.count(DEEP) > 50
    assert {"out", "to-file"} < set(names)
    assert beneath.remove_tree(volume)
    assert not volume.exists()
    assert beneath.remove_tree(volume)
    assert state(outside) == before


def test_removal_ends_although_somebody_goes_on_writing(volume, monkeypatch):
    monkeypatch.setattr(beneath, "_MOST_LEVELS", 100)
    making = "with contextlib.suppress(OSError): os.makedirs(sys.argv[1] + '/x/y')"
    program = f"import contextlib, os, sys\nwhile True:\n    {making}"
    with subprocess.Popen([sys.executable, "-c", program, volume / "d"]) as writing:
        try:
            beneath.remove_tree(volume / "d")
        finally:
            writing.kill()
    assert beneath.remove_tree(volume)


def test_removing_a_link_leaves_what_it_leads_to(volume, outside):
    before = state(outside)
    (volume / "out").symlink_to(outside)
    assert beneath.remove_tree(volume / "out")
    assert not (volume / "out").is_symlink()
    assert state(outside) == before


@root_only
def test_another_mount_is_neither_walked_nor_removed(volume, outside):
    (volume / "d/mounted").mkdir()
    before = state(outside)
    subprocess.run(["mount", "--bind", outside, volume / "d/mounted"], check=True)
    try:
        assert not beneath.remove_tree(volume)
        with beneath.opened(volume) as root:
            assert not [entry.name for _, entry in beneath.walk(root) if entry.name == "file"]
        assert state(outside) == before
    finally:
        subprocess.run(["umount", volume / "d/mounted"], check=True)
    assert beneath.remove_tree(volume)


def test_the_group_is_given_to_files_and_directories_and_never_through_links(volume, outside):
    (volume / "link").symlink_to(outside / "sub/file")
    (volume / "d/sub/file").chmod(0o600)
    before, group = state(outside), os.getgid()
    with beneath.opened(volume) as root:
        for name in ("d", "link"):
            beneath.give_to_group(root, name, group, 0o060, 0o2070)
    beneath.give_to_group(os.open(volume / "d/sub", os.O_RDONLY), "file", group, 0o060, 0o2070)
    assert (volume / "d").stat().st_mode & 0o2070 == 0o2070
    assert (volume / "d/sub/file").stat().st_mode & 0o777 == 0o660
    assert state(outside) == before


def test_links_that_are_swapped_all_the_time_lead_nowhere(volume, outside, tmp_path):
    (volume / "link").symlink_to(outside)
    (volume / "d/out").symlink_to(outside / "sub")
    before, seen, escaped, done = state(outside), set(), 0, 0
    pairs = [("d", "link"), ("d/sub", "d/out"), ("t/a", "t/b"), ("t/a/a", "t/a/b")]
    with swapping(volume, *pairs), beneath.opened(volume) as root:
        while done < RACES or not escaped:
            with suppress(OSError):
                # The race is a real one: by its plain path the file of the machine is found.
                escaped += (volume / "d/sub/file").read_text() == "outside"
            place_tree(tmp_path / "made", volume / "t", outside)
            for number in range(4):
                with suppress(OSError):
                    seen.add(read(root, "d/sub/file"))
                with suppress(OSError):
                    os.close(beneath.make_directories(root, f"d/sub/new-{number}/deeper", 0o777))
                for directory, entry in beneath.walk(root):
                    with suppress(FileNotFoundError):
                        beneath.give_to_group(directory, entry.name, os.getgid(), 0o002, 0o002)
                    done += 1
                done += 2
            beneath.remove_tree("t", parent=root)
            done += 1
    assert seen == {"inside"}
    assert state(outside) == before


def place_tree(made, place, outside):
    """Directories with links beside them, moved to the place at once: names in the place are not to be trusted."""
    (made / "a/a/a").mkdir(parents=True)
    for directory in (made, made / "a", made / "a/a"):
        (directory / "b").symlink_to(outside)
        (directory / "file").touch()
    try:
        made.rename(place)
    except OSError:
        # Removal was late: something of the tree before is still there.
        beneath.remove_tree(made)
