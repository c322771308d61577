"""`dray run`: its devices, output, status, reasons while it waits, and what it leaves behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

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
        (["--class", "nics=2"], "DeviceClass nics not found; there are: dra.cpu, dra.net, "),
        (["--class", "dra.net=0"], "'dra.net=0' is not NAME=COUNT, with a count from 1 to 32"),
        (["--memory", "20Gi"], "--memory, --select and --gpu-class need --gpu COUNT"),
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


TYPO = 'device.attributes["gpu.nvidia.com"].productname == "x"'


def test_a_selector_that_fails_is_told_in_full_and_not_waited_for(up: Up) -> None:
    done = up.dray("run", "--gpu", "1", "--select", TYPO, "--timeout", "0", "--", "true")
    assert done.exit_code == 124, done.output
    assert "no such key: productname" in done.stderr


def test_the_whole_reason_is_on_the_terminal(up: Up) -> None:
    """A terminal of 40 columns; the reason has more than a hundred characters."""
    program = [sys.executable, "-c", "from dray.cli import main; main()"]
    ours, its = pty.openpty()
    subprocess.run(["stty", "cols", "40"], stdin=its, check=True)
    arguments = ("run", "--gpu", "9", "--timeout", "0", "--", "true")
    environment = {"KUBECONFIG": str(up.config), "PATH": os.environ["PATH"]}
    done = subprocess.run([*program, *arguments], stdin=its, stdout=its, stderr=its, env=environment, check=False)
    os.close(its)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 124
    assert "needs 9, 8 available" in shown.replace("\r\n", "\n")


def test_input_that_nothing_reads_is_noted(up: Up) -> None:
    program = [sys.executable, "-c", "from dray.cli import main; main()", "run", "--", "true"]
    environment = {**os.environ, "KUBECONFIG": str(up.config)}
    for given, noted in (("hi\n", True), ("", False)):
        done = subprocess.run(program, input=given, capture_output=True, text=True, env=environment, check=True)
        assert ("note: nothing read the input; -i connects it to the command" in done.stderr) == noted


def test_input_of_a_pipe_reaches_the_command_and_ends_there(up: Up) -> None:
    program = [sys.executable, "-c", "from dray.cli import main; main()", "run", "-i", "--gpu", "1", "--"]
    done = subprocess.run(
        [*program, "sh", "-c", "cat; echo end"],
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        env={"KUBECONFIG": str(up.config), "PATH": os.environ["PATH"]},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "one\ntwo\nend\n"), done.stderr


def test_a_shell_on_a_terminal(up: Up) -> None:
    program = [sys.executable, "-c", "from dray.cli import main; main()"]
    ours, its = pty.openpty()
    arguments = ("run", "-it", "--name", "shell", "--", "sh")
    environment = {"KUBECONFIG": str(up.config), "PATH": os.environ["PATH"]}
    shell = subprocess.Popen([*program, *arguments], stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)
    try:
        os.write(ours, b"test -t 0 && echo a-$((40 + 2))-terminal\n")
        shown = read_until(ours, "a-42-terminal")
        os.write(ours, b"exit 5\n")
        assert shell.wait(60) == 5, shown
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def read_until(descriptor: int, wanted: str) -> str:
    """Reads a terminal until it shows the text; a test that waits in vain ends with the time limit of all tests."""
    shown = ""
    while wanted not in shown:
        shown += os.read(descriptor, 4096).decode(errors="replace")
    return shown


def test_a_detached_run_is_followed_later_and_its_status_comes_back(up: Up) -> None:
    script = "echo first; while ! test -e $GO; do sleep 0.1; done; echo last; exit 3"
    go = up.folder / "go"
    detached = ("run", "--detach", "--name", "later", "--gpu", "1", "--env", f"GO={go}")
    done = up.dray(*detached, "--label", "team=a", "--", "sh", "-c", script)
    assert done.exit_code == 0, done.output
    assert "later: runs in the background; `dray attach later` follows it" in done.stderr
    assert up.named("pods")["later"]["metadata"]["labels"]["team"] == "a"
    follower = up.start("attach", "later")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "first\n"
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=60)
    assert follower.returncode == 130
    assert "later: keeps running" in err
    go.touch()
    again = up.dray("attach", "later")
    assert (again.exit_code, again.stdout) == (3, "first\nlast\n")


def test_a_run_whose_terminal_is_lost_goes_on(up: Up) -> None:
    started = up.start("run", "--name", "lost", "--gpu", "1", "--", "sh", "-c", "echo up; exec sleep 999")
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    started.send_signal(signal.SIGHUP)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 129
    assert "lost: keeps running without this terminal; `dray attach lost` follows it" in err
    assert up.named("pods")["lost"]["status"]["phase"] == "Running"
    assert "lost" in up.named("resourceclaims")


def test_a_command_past_its_time_limit_is_ended(up: Up) -> None:
    done = up.dray("run", "--time-limit", "1s", "--", "sleep", "999")
    assert done.exit_code not in (0, 124)
    assert "DeadlineExceeded" in done.stderr


QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [deviceclass.resource.kubernetes.io/gpu.nvidia.com]
    flavors:
    - name: any
      resources: [{name: deviceclass.resource.kubernetes.io/gpu.nvidia.com, nominalQuota: 1}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team-a, namespace: default}
spec: {clusterQueue: team}
"""


def test_a_run_in_a_queue_waits_for_its_quota(up: Up) -> None:
    up.apply(QUEUES)
    try:
        missing = up.dray("run", "--queue", "team-b", "--gpu", "1", "--", "true")
        assert missing.exit_code == 1
        assert "queue team-b not found in namespace default; did you mean team-a?" in missing.stderr
        assert up.dray("run", "--queue", "team-a", "--gpu", "1", "--", "true").exit_code == 0
        much = up.dray("run", "--queue", "team-a", "--gpu", "2", "--timeout", "0", "--", "true")
        assert much.exit_code == 124
        assert "can never fit: ClusterQueue team has 1 gpu.nvidia.com at most" in much.stderr
    finally:
        for kind, name in (("localqueue", "team-a"), ("clusterqueue", "team"), ("resourceflavor", "any")):
            up.dray("delete", kind, name)
