"""`dray run`: its devices, output, status, reasons while it waits, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.cli.running import eventually
from tests.cli.simulated.conftest import A100, SHARED, Up

UUID = re.compile(r"UUID: (GPU-[0-9a-f-]+)")


def test_a_command_gets_devices_that_belong_together_and_its_status_comes_back(up: Up) -> None:
    script = "nvidia-smi -L; pwd; echo $COLOUR; echo problem >&2; exit 7"
    done = up.dray("run", "--gpu", "2", "--match", "pcieRoot", "--env", "COLOUR=blue", "--", "sh", "-c", script)
    assert done.exit_code == 7, done.output
    first, second = UUID.findall(done.stdout)
    roots = {
        device["attributes"]["uuid"]["string"]: device["attributes"]["resource.kubernetes.io/pcieRoot"]["string"]
        for each in up.items("resourceslices")
        for device in each["spec"].get("devices", ())
        if "uuid" in device["attributes"]
    }
    assert first != second
    assert roots[first] == roots[second]
    assert done.stdout.splitlines()[2:] == [os.getcwd(), "blue"]
    said = done.stderr.splitlines()
    assert re.fullmatch(rf"run-\w+: on node {A100} with gpu.nvidia.com/{A100}/gpu-\d, .*/gpu-\d", said[0])
    assert said[1:] == ["problem"]
    assert not up.items("pods,resourceclaims")


def test_a_share_of_a_gpu_has_the_memory_that_was_asked_for(up: Up) -> None:
    shared = "device.allowMultipleAllocations"
    command = ("--", "nvidia-smi")
    done = up.dray("run", "--gpu", "1", "--memory", "20Gi", "--select", shared, "--quiet", *command)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "20480MiB" in done.stdout


def test_what_it_waits_for_is_said_and_it_starts_when_that_is_free(up: Up) -> None:
    holder = up.start("run", "--gpu", "8", "--name", "holder", "--node", A100, "--", "sleep", "999")
    eventually(lambda: up.named("pods").get("holder", {}).get("status", {}).get("phase") == "Running")
    impatient = up.dray("run", "--gpu", "1", "--node", A100, "--timeout", "0", "--", "true")
    assert impatient.exit_code == 124
    assert "in use by default/holder" in impatient.stderr
    waiting = up.start("run", "--gpu", "3", "--node", A100, "--name", "waiting", "--", "nvidia-smi", "-L")
    assert waiting.stderr is not None
    assert "needs 3, 0 available (8 in use by default/holder" in waiting.stderr.readline()
    # As Ctrl-C does; the command ends, and its devices are free.
    holder.send_signal(signal.SIGINT)
    out, err = holder.communicate(timeout=60)
    assert (holder.returncode, out) == (130, "")
    assert "holder: interrupted; the pod is deleted" in err
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert len(UUID.findall(out)) == 3


def test_kept_pods_stay_with_their_claim_and_take_it_with_them(up: Up) -> None:
    done = up.dray("run", "--gpu", "1", "--node", SHARED, "--name", "kept", "--keep", "--", "echo", "done")
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert up.named("pods")["kept"]["status"]["phase"] == "Succeeded"
    assert up.dray("logs", "kept", "--tail", "1", "-c", "main").stdout == "done\n"
    assert up.dray("logs", "kept", "--tail", "0").stdout == ""
    missing = up.dray("logs", "nobody")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert 'pods "nobody" not found' in missing.stderr
    (owner,) = up.named("resourceclaims")["kept"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Pod", "kept")
    up.dray("delete", "pod", "kept")
    assert eventually(lambda: not up.items("resourceclaims"))


def test_cpus_of_its_own(up: Up) -> None:
    done = up.dray("run", "--cpu", "1", "--", "python3", "-c", "import os; print(len(os.sched_getaffinity(0)))")
    assert (done.exit_code, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--class", "nics=2"], "there is no DeviceClass nics; there are: dra.cpu, dra.net, "),
        (["--class", "dra.net=0"], "'dra.net=0' is not NAME=COUNT, with a count from 1 to 32"),
        (["--memory", "20Gi"], "--memory, --select and --gpu-class are about GPUs: say how many with --gpu"),
        (["--gpu", "1", "--memory", "much"], "'much' is not an amount of memory like 20Gi"),
        (["--gpu", "1", "--select", "device.x"], "spec.devices.requests[0].exactly.selectors[0].cel.expression"),
        (["--kubeconfig", "none.yaml"], "no kubeconfig at none.yaml; give --kubeconfig FILE"),
    ],
)
def test_mistakes_are_told(up: Up, arguments: list[str], said: str) -> None:
    done = up.dray("run", *arguments, "--", "true")
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert not up.items("pods,resourceclaims")


def test_a_command_that_is_not_there_is_told(up: Up) -> None:
    done = up.dray("run", "--timeout", "20", "--", "no-such-command")
    assert done.exit_code in (127, 128)
    assert "exec no-such-command: no such file" in done.stderr


def test_a_pod_that_is_taken_away_ends_the_run(up: Up) -> None:
    started = up.start("run", "--name", "victim", "--", "sh", "-c", "echo up; exec sleep 999")
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    up.dray("delete", "pod", "victim", "--grace-period", "1")
    _, err = started.communicate(timeout=60)
    assert started.returncode not in (0, 130)
    assert "victim: it was deleted" in err
    assert json.loads(up.dray("get", "pods", "-o", "json").stdout)["items"] == []
