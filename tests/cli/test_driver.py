import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from dray.cli import main
from dray.cli.driver import driver
from dray.drivers.cpu.options import CpuOptions
from dray.drivers.gpu.driver import GpuDriver
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.nic.driver import NicDriver
from dray.drivers.nic.options import NicOptions
from dray.drivers.registry import setting_names
from dray.drivers.tpu.options import TpuOptions
from dray.testing.api_endpoint import ApiEndpoint
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import node
from tests.cli.running import eventually, running
from tests.cli.test_up import wait
from tests.drivers.cpu.machines import machine, write_sysfs

DRAY = str(Path(sys.executable).with_name("dray"))
LAMPS = """
import msgspec
from dray.driver import Device, Driver

class Settings(msgspec.Struct, forbid_unknown_fields=True):
    count: int = 1

class Lamps(Driver):
    name = "lamps.example.com"
    Options = Settings

    def __init__(self, settings):
        self.count = settings.count

    async def devices(self):
        return [Device(f"lamp-{at}", attributes={"color": "red"}) for at in range(self.count)]
"""


def run(*arguments):
    return CliRunner().invoke(main, ["driver", *map(str, arguments)])


@pytest.fixture
def sysfs(tmp_path):
    return f"sysfsRoot={write_sysfs(tmp_path / 'sys', machine(nodes=2, cores=2))}"


def test_inspect_prints_a_table_of_what_would_be_published(sysfs):
    result = run("cpu", "--inspect", "--node-name", "n1", "--set", sysfs, "--set", "groupBy=socket")
    assert result.exit_code == 0
    header, *rows = result.output.splitlines()
    assert header.split() == ["DEVICE", "POOL", "SHARED", "CAPACITY", "ATTRIBUTES"]
    attributes = "dra.cpu/numCPUs=8,dra.cpu/smtEnabled=true,dra.cpu/socketID=0"
    assert [row.split() for row in rows] == [["cpudevsocket000", "n1", "yes", "dra.cpu/cpu=8", attributes]]


def test_inspect_prints_slices_that_an_api_server_takes(sysfs):
    given = ("cpu", "--inspect", "--node-name", "n1", "--set", sysfs, "--set", "cpuDeviceMode=individual")
    printed = json.loads(run(*given, "-o", "json").output)
    assert yaml.safe_load(run(*given, "-o", "yaml").output) == printed
    assert printed["spec"]["pool"] == {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    assert printed["spec"]["nodeName"] == "n1"
    assert len(printed["spec"]["devices"]) == 8


def test_settings_come_from_a_file_and_the_command_line_wins(sysfs, tmp_path):
    (tmp_path / "settings.yaml").write_text('reservedCPUs: "0"\ncpuDeviceMode: individual\n')
    result = run(
        "cpu", "--inspect", "--config", tmp_path / "settings.yaml", "--set", sysfs, "--set", "reservedCPUs=1-7"
    )
    assert [row.split()[0] for row in result.output.splitlines()[1:]] == ["cpudev000"]
    assert "dra.cpu/cpuID=0" in result.output


def test_a_driver_of_ones_own_is_named_by_its_class(tmp_path, monkeypatch):
    (tmp_path / "lamps.py").write_text(LAMPS)
    monkeypatch.syspath_prepend(tmp_path)
    result = run("lamps:Lamps", "--inspect", "--set", "count=2", "--node-name", "n")
    assert [row.split()[0] for row in result.output.splitlines()[1:]] == ["lamp-0", "lamp-1"]


def test_an_installed_package_offers_drivers_as_entry_points(tmp_path, monkeypatch):
    (tmp_path / "lamps.py").write_text(LAMPS)
    metadata = tmp_path / "lamps-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lamps\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[dray.drivers]\nlamps = lamps:Lamps\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "lamp-0" in run("lamps", "--inspect", "--node-name", "n").output
    assert "there are cpu, gpu, lamps" in run("fpga", "--inspect").output


OPTIONS = {"cpu.md": CpuOptions, "gpu.md": GpuOptions, "nic.md": NicOptions, "tpu.md": TpuOptions}


def test_all_options_and_settings_are_documented():
    docs = Path(__file__).parents[2] / "docs" / "drivers"
    options = [name for each in driver.params for name in each.opts if name.startswith("--")]
    assert [each for each in options if f"`{each}" not in (docs / "running.md").read_text()] == []
    for page, settings in OPTIONS.items():
        told = (docs / page).read_text()
        assert [each for each in setting_names(settings) if f"`{each}`" not in told] == []


def test_all_fields_of_configurations_are_documented():
    docs = Path(__file__).parents[2] / "docs" / "drivers"
    for page, configs in {"gpu.md": GpuDriver.configs, "nic.md": NicDriver.configs}.items():
        told = (docs / page).read_text()
        names = {name for each in configs for name in fields_of(each)}
        assert len(names) > 5
        assert [each for each in sorted(names) if not re.search(rf"[`.]{each}(\[\])?[`.]", told)] == []


def fields_of(kind):
    """Of a structure and all within it."""
    for each in msgspec.structs.fields(kind):
        yield each.encode_name
        for part in (each.type, *get_args(each.type)):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                yield from fields_of(part)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fpga"], "there is no driver 'fpga'; there are cpu, gpu"),
        (["nowhere.at.all:Driver"], "No module named 'nowhere'"),
        (["json:JSONDecoder"], "json:JSONDecoder is not a subclass of dray.driver.Driver"),
        (["json:Driver"], "module 'json' has no attribute 'Driver'"),
        (["cpu", "--set", "colour=red"], "unknown field `colour`; it takes apiVersion, cpuDeviceMode"),
        (["cpu", "--set", "reservedCPUs=x"], "'x' is not a list of CPUs"),
        (["cpu", "--set", "sysfsRoot=/nonexistent"], "cannot read which CPUs are online from /nonexistent"),
        (["cpu", "--set", "noequals"], "--set noequals: write KEY=VALUE"),
    ],
)
def test_what_keeps_a_driver_from_starting_is_one_line(arguments, message):
    result = run(*arguments, "--inspect")
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


async def test_it_runs_beside_a_kubelet_until_it_is_asked_to_stop(tmp_path):
    async with (
        LocalCluster(objects=[node("worker")]) as cluster,
        ApiEndpoint(cluster.application) as api,
        KubeletDouble(cluster.client, "worker", kubeconfig=api.write_kubeconfig(tmp_path / "config")) as kubelet,
    ):
        command = [DRAY, "driver", "cpu", "--set", "sharedPool=off"]
        places = ["--kubelet-root", str(kubelet.root), "--cdi-dir", str(kubelet.cdi), "--metrics-port", "0"]
        process = kubelet.start_driver([*command, *places])
        await kubelet.registered("dra.cpu", within=30)

        async def published():
            return await cluster.list("ResourceSlice")

        (one,) = await cluster.eventually(published)
        assert one["spec"]["driver"] == "dra.cpu"
        assert one["metadata"]["ownerReferences"][0]["name"] == "worker"
        metrics = re.search(r"metrics at (\S+)", process.output())[1]

        def fetch(url):
            with urllib.request.urlopen(url) as answer:
                return answer.read().decode()

        assert "dra_driver_slice_writes" in await asyncio.to_thread(fetch, metrics)

        async def ready():
            with suppress(urllib.error.HTTPError):
                return await asyncio.to_thread(fetch, metrics.replace("/metrics", "/readyz"))

        assert await cluster.eventually(ready)
        assert await asyncio.to_thread(process.stop) == 0
        assert "Driver dra.cpu of node worker" in process.output()
        assert "Traceback" not in process.output()
        await kubelet.deregistered("dra.cpu")


def others_may_run_dray():
    try:
        subprocess.run([DRAY, "--version"], user=65534, cwd="/", env={"HOME": "/"}, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@pytest.mark.skipif(os.geteuid() != 0, reason="root drops its rights here")
async def test_a_user_without_rights_or_a_wrong_directory_is_one_line():
    if not others_may_run_dray():
        pytest.skip("dray is installed where other users cannot run it")
    async with (
        LocalCluster(objects=[node("worker")]) as cluster,
        ApiEndpoint(cluster.application) as api,
        KubeletDouble(cluster.client, "worker") as kubelet,
    ):
        config = api.write_kubeconfig(kubelet.root / "config")
        config.chmod(0o644)
        kubelet.root.chmod(0o755)
        environment = {**os.environ, "KUBECONFIG": str(config), "HOME": "/"}

        async def ended(root):
            command = [DRAY, "driver", "cpu", "--kubelet-root", str(root)]
            given = {"capture_output": True, "text": True, "env": environment, "user": 65534, "cwd": "/"}
            process = await asyncio.to_thread(subprocess.run, command, **given, timeout=60)
            return process.returncode, process.stderr.splitlines()[-1]

        status, told = await ended(kubelet.root)
        assert (status, told.startswith(f"error: Permission denied: {kubelet.root}/plugins")) == (2, True)
        assert "run it as root, or give it directories that it may write" in told
        status, told = await ended(kubelet.root / "plugins")
        assert (status, "does not exist: is" in told) == (2, True)


async def test_a_driver_that_a_node_cannot_have_is_one_line(tmp_path):
    async with LocalCluster() as cluster, ApiEndpoint(cluster.application) as endpoint:
        places = ["--kubeconfig", str(endpoint.write_kubeconfig(tmp_path / "kubeconfig")), "--root", str(tmp_path)]
        process = await asyncio.create_subprocess_exec(
            DRAY, "node", "--driver", "nowhere:Driver", *places, stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
    expected = (
        "error: driver nowhere:Driver: No module named 'nowhere'; the module must be installed, or in PYTHONPATH\n"
    )
    assert (process.returncode, said.decode()) == (2, expected)


DRIVER = """
from dray.driver import Device, Driver, Prepared

class Lamps(Driver):
    name = "{name}"

    {asynchronous}def devices(self):
        return [Device("{device}", attributes={{{attribute}}})]

    async def prepare(self, claim):
        return None
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attribute": '"volume": 1.5'}, "device lamp-0: attribute volume is 1.5: give text, a whole number"),
        ({"asynchronous": ""}, "Lamps.devices returned list: write it with `async def`"),
        ({"attribute": '"x": 1 / 0'}, "driver lamps.example.com failed: ZeroDivisionError: division by zero ("),
        ({"name": "bad_driver"}, "bad_driver"),
        ({"device": "LAMP_0"}, "device LAMP_0: name: "),
        ({"attribute": '"model name": "x"'}, "device lamp-0"),
    ],
)
def test_a_mistake_in_a_driver_is_told_without_a_stack(tmp_path, change, said):
    parts = {"name": "lamps.example.com", "asynchronous": "async ", "device": "lamp-0", "attribute": "", **change}
    (tmp_path / "mistaken.py").write_text(DRIVER.format(**parts))
    done = subprocess.run(
        [DRAY, "driver", "mistaken:Lamps", "--inspect", "--node-name", "n"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert said in done.stderr


def test_a_driver_runs_beside_the_node_of_a_cluster_with_data(tmp_path):
    (tmp_path / "lamps.py").write_text(
        DRIVER.format(name="lamps.example.com", asynchronous="async ", device="lamp-0", attribute="").replace(
            "return None", "return Prepared([])"
        )
    )
    with running("up", "--plain", "--port", "0", "--node", "--data", "data", cwd=tmp_path) as up:
        wait(up)
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KUBECONFIG": str(tmp_path / "data/kubeconfig")}
        command = [DRAY, "driver", "lamps:Lamps", "--data", str(tmp_path / "data")]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as lamps:
            try:
                job = [DRAY, "run", "--class", "lamps.example.com=1", "--", "echo", "lit"]

                def lit():
                    done = subprocess.run(job, env=environment, capture_output=True, text=True, timeout=60)
                    return done.stdout == "lit\n"

                assert eventually(lit)
            finally:
                lamps.terminate()
        up.stop()
    missing = run("cpu", "--data", tmp_path / "none")
    assert "no cluster runs with" in missing.output
