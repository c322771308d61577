"""What pods have on the disk, read from directories that containers write."""

from __future__ import annotations

import os
import subprocess

from dray.node.eviction.storage import size


def test_files_count_with_their_blocks_and_links_with_nothing_behind_them(tmp_path):
    (tmp_path / "written/deep").mkdir(parents=True)
    (tmp_path / "other").write_bytes(bytes(1 << 20))
    (tmp_path / "written/deep/file").write_bytes(bytes(1 << 16))
    (tmp_path / "written/link").symlink_to(tmp_path)
    with open(tmp_path / "written/sparse", "wb") as file:
        file.truncate(1 << 40)
    assert 1 << 16 <= size([tmp_path / "written", tmp_path / "missing"]) < 1 << 20


def test_directories_deeper_than_python_recurses_are_counted(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=here)
        following = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    with open(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
        file.write(bytes(1 << 16))
    os.close(here)
    counted = size([tmp_path])
    # Python cannot remove directories as deep as this.
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)
    assert counted >= 1 << 16
