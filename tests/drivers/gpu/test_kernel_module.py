"""Whether the kernel module was loaded again."""

import shutil

import pytest

from dray.drivers.gpu.kernel_module import KernelModule


@pytest.fixture
def module(tmp_path):
    found = KernelModule(tmp_path / "proc", tmp_path / "sys")
    yield found
    found.close()


@pytest.mark.parametrize("directory", ["proc/driver/nvidia", "sys/module/nvidia"])
def test_a_module_that_is_loaded_again_has_another_directory(tmp_path, module, directory):
    (tmp_path / directory).mkdir(parents=True)
    assert [module.follow(), module.follow()] == [False, False]
    shutil.rmtree(tmp_path / directory)
    # It is unloaded; whether it comes back is not known yet.
    assert not module.follow()
    (tmp_path / directory).mkdir()
    assert [module.follow(), module.follow()] == [True, False]


def test_a_kernel_that_does_not_show_the_module_tells_nothing(tmp_path, module):
    assert not module.follow()
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    assert not module.follow()


def test_changes_in_the_directory_of_a_module_are_no_reload(tmp_path, module):
    directory = tmp_path / "proc/driver/nvidia"
    directory.mkdir(parents=True)
    module.follow()
    (directory / "params").write_text("")
    directory.chmod(0o700)
    assert not module.follow()
