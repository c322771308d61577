import os
import stat

import pytest

from dray.driver.cdi.edits import DeviceNode
from dray.node.runtimes.cdi_edits import MadeDevice, is_pipe, made_device
from dray.node.runtimes.interface import StartError


def test_a_device_file_is_made_only_if_the_host_has_none_with_its_numbers():
    there = os.stat("/dev/null").st_rdev
    major, minor = os.major(there), os.minor(there)
    assert made_device(DeviceNode("/dev/null", type="c", major=major, minor=minor)) is None
    assert made_device(DeviceNode("/dev/x", "/dev/null", type="c", major=major, minor=minor)) is None
    assert made_device(DeviceNode("/dev/null")) is None
    other = DeviceNode("/dev/null", type="c", major=major, minor=minor + 1, file_mode=0o100440, uid=7, gid=8)
    assert made_device(other) == MadeDevice(stat.S_IFCHR | 0o440, os.makedev(major, minor + 1), 7, 8)
    block = DeviceNode("/dev/dray-missing", type="b", major=7)
    assert made_device(block) == MadeDevice(stat.S_IFBLK | 0o666, os.makedev(7, 0), 0, 0)
    assert not is_pipe(block)


def test_pipes_are_told_from_devices_and_nothing_else_is_taken(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert is_pipe(DeviceNode("/dev/x", str(tmp_path / "pipe")))
    assert not is_pipe(DeviceNode("/dev/null"))
    with pytest.raises(StartError, match="file: not a device file"):
        is_pipe(DeviceNode("/dev/x", str(tmp_path / "file")))
    with pytest.raises(StartError, match="device /dev/dray-missing: No such file or directory"):
        is_pipe(DeviceNode("/dev/dray-missing"))
