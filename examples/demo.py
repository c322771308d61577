"""A tour of claims: `make demo`, or `python examples/demo.py`.

It starts `dray up` with this machine and the four simulated ones of examples/demo/machines.yaml, applies the manifests
of examples/demo one after the other, and shows what each pod got, why, and what it said. Every command it prints can
be typed as it stands in another shell while `dray up` runs. Neither kubectl nor root is needed.
"""

import contextlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dray.cli import main

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0


class Output(io.TextIOWrapper):
    """Text and bytes that a command prints, kept."""

    def __init__(self):
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def text(self):
        return self.buffer.getvalue().decode(errors="replace")


def dray(*arguments, show=True):
    """Runs a command of dray in this process; its status and what it printed."""
    output, status = Output(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(arguments, standalone_mode=False)
        except SystemExit as end:
            status = end.code
    if show:
        print("$", "dray", *arguments)
        print(output.text(), end="", flush=True)
    return status, output.text()


def objects(*arguments):
    status, text = dray("get", *arguments, "-o", "json", show=False)
    found = json.loads(text) if status == 0 else {"items": []}
    return found.get("items", [found])


def wait_for(question):
    """What the question gives once that is something."""
    end = time.monotonic() + PATIENCE
    while not (answer := question()):
        if time.monotonic() > end:
            sys.exit("this takes too long; something is wrong")
        time.sleep(0.1)
    return answer


def said(name):
    """What the pod printed, once it has; or why it waits, once the scheduler has said so."""

    def answer():
        for pod in objects("pod", name):
            for each in pod["status"].get("conditions", []):
                if each["type"] == "PodScheduled" and each["status"] == "False" and each.get("message"):
                    return {"waits": each["message"]}
            if pod["status"].get("phase") == "Running":
                status, text = dray("logs", name, show=False)
                return {"log": text} if status == 0 and text else None
        return None

    return wait_for(answer)


def preempted():
    return [each for each in objects("events") if each["reason"] == "Preempted"]


def show(path):
    text = path.read_text()
    print(f"\n{text.partition('apiVersion')[0].strip().removeprefix('# ')}")
    dray("apply", "-f", str(path.relative_to(HERE.parent)))
    names = [block.partition("name: ")[2].partition("}")[0] for block in text.split("kind: Pod\n")[1:]]
    if path.stem.endswith("preemption"):
        for event in wait_for(preempted):
            print(f"{event['involvedObject']['name']}: {event['message']}")
        wait_for(lambda: objects("pod", *names)[0]["spec"].get("nodeName"))
    for name in names:
        found = said(name)
        if "waits" in found:
            print(f"{name}: {found['waits']}")
        dray("explain", f"pod/{name}")
        if "log" in found:
            dray("logs", name)


def tour():
    for path in sorted((HERE / "demo").glob("[1-9]-*.yaml")):
        show(path)
        # Of equal pods, the one that started last is preempted. Start times are whole seconds, and the two pods that
        # may be preempted are three manifests apart.
        time.sleep(0.4)
    print("\nIn the end:")
    dray("get", "pods", "-o", "wide")
    dray("top")


def run():
    os.chdir(HERE.parent)
    machines = f"{HERE.name}/demo/machines.yaml"
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = os.environ["KUBECONFIG"] = f"{folder}/kubeconfig"
        print(f"$ dray up --node --simulate {machines}", flush=True)
        command = [sys.executable, "-c", "from dray.cli import main; main()"]
        up = subprocess.Popen(
            [*command, "up", "--node", "--simulate", machines, "--port", "0", "--kubeconfig", kubeconfig],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            print(up.stdout.readline(), end="", flush=True)
            if not up.stdout.readline():
                sys.exit("dray up did not start")
            wait_for(lambda: len({each["spec"]["nodeName"] for each in objects("resourceslices")}) == 5)
            tour()
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(PATIENCE)
            up.stdout.close()
    place = HERE.parent
    enter = f"  cd {shlex.quote(str(place))}\n"
    if not shutil.which("dray"):
        enter += f"  . {shlex.quote(f'{place}/.venv/bin/activate')}\n"
    print(
        f"\nTo go on, in one shell:\n{enter}"
        f"  dray up --node --simulate {machines}\n"
        f"and in another, with kubectl or, where there is none, with dray:\n{enter}"
        f"  export KUBECONFIG={shlex.quote(f'{place}/dray.kubeconfig')}\n"
        "  dray run --gpu 2 --match pcieRoot -- nvidia-smi -L\n"
        f"  kubectl apply -f {HERE.name}/demo/2-gpus-and-nic.yaml\n"
        "  kubectl exec training -- nvidia-smi\n"
        "  dray top"
    )


if __name__ == "__main__":
    run()
