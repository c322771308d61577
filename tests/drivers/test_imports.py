"""Drivers without libraries of vendors, and without bindings of them: they are imported, and say what is missing."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pynvml", "pyroute2"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
IMPORT = """
import dray.drivers
for found in pkgutil.walk_packages(dray.drivers.__path__, "dray.drivers."):
    importlib.import_module(found.name)
    print(found.name)
"""
INSPECT = """
from dray.cli import main
main(["driver", *sys.argv[1:], "--inspect"])
"""


def run(program, *arguments):
    command = [sys.executable, "-c", PROGRAM + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_all_drivers_are_imported_without_bindings():
    result = run(IMPORT)
    assert result.stderr == ""
    assert {"dray.drivers.gpu.health", "dray.drivers.nic.driver", "dray.drivers.tpu.driver"} <= set(
        result.stdout.split()
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "there is no NVIDIA driver"),
        ("nic", "the package pyroute2 is missing: pip install pyroute2"),
        ("tpu", "no TPU on this machine"),
    ],
)
def test_what_is_missing_is_one_line(name, message, tmp_path):
    roots = {"gpu": ("driverRoot",), "tpu": ("sysfsRoot", "devRoot")}.get(name, ())
    result = run(INSPECT, name, *(f"--set={root}={tmp_path}" for root in roots))
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
