"""The session with NVML while several operations use it."""

import threading
import time
from contextlib import suppress

from dray.drivers.gpu.driver_files import find_driver_files
from dray.drivers.gpu.nvml_calls import NvmlError
from dray.drivers.gpu.nvml_session import Nvml


def test_operations_are_told_that_nvml_is_released_only_when_it_is_closed(gpu_machine, tmp_path):
    machine = gpu_machine("p5.48xlarge", 1)
    nvml = Nvml(find_driver_files(str(machine.driver_root)).management_library)
    nvml.released_by = tmp_path / "release"
    was_open = []

    def be_refused():
        with suppress(NvmlError), nvml.opened():
            return
        was_open.append((machine.state / "opened").read_text())

    refused = [threading.Thread(target=be_refused) for _ in range(2)]
    with nvml.opened():
        nvml.released_by.touch()
        for each in refused:
            each.start()
        time.sleep(0.2)
        assert was_open == []
    for each in refused:
        each.join(30)
    assert was_open == ["0", "0"]
    assert nvml.reloads == 1
