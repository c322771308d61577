"""Directories on disk."""

import os

import pytest

from dray.process import beneath
from dray.process.directories import make_path


def test_a_path_of_more_directories_than_python_recurses_is_made(tmp_path):
    made = f"{tmp_path}/top" + "/d" * 1500
    make_path(made, 0o750)
    try:
        assert oct(os.stat(made).st_mode & 0o777) == "0o750"
        make_path(made)
    finally:
        beneath.remove_tree(tmp_path / "top")


def test_a_path_that_linux_does_not_take_makes_nothing(tmp_path):
    with pytest.raises(OSError, match="File name too long"):
        make_path(f"{tmp_path}/top" + "/d" * 3000)
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_way_is_not_taken_for_a_directory(tmp_path):
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises((FileExistsError, NotADirectoryError)):
            make_path(tmp_path / path)
