"""A tour of claims: `make demo`, or `python examples/tour.py`.

It starts `dray up` with the small lab of examples/lab, applies the manifests of examples/tour one after the other, and
shows what became of each. Every command it prints can be typed as it stands in another shell while `dray up` runs.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dray.cli import main

HERE = Path(__file__).resolve().parent
PATIENCE = 10.0


def dray(*arguments, show=True):
    """Runs a command of dray in this process; its status and what it printed."""
    if show:
        print("$", "dray", *arguments)
    output, status = io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(arguments, standalone_mode=False)
        except SystemExit as end:
            status = end.code
    if show:
        print(output.getvalue(), end="", flush=True)
    return status, output.getvalue()


def objects(*arguments):
    found = json.loads(dray("get", *arguments, "-o", "json", show=False)[1])
    return found.get("items", [found])


def wait_for(question):
    """What the question gives once that is something."""
    end = time.monotonic() + PATIENCE
    while not (answer := question()):
        if time.monotonic() > end:
            sys.exit("this takes too long; something is wrong")
        time.sleep(0.05)
    return answer


def judged(name):
    """The pod's condition, once the scheduler has come to it."""

    def condition():
        conditions = objects("pod", name)[0]["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), None)

    return wait_for(condition)


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
        condition = judged(name)
        if condition["status"] != "True" and condition.get("message"):
            print(f"{name}: {condition['message']}")
        dray("explain", f"pod/{name}")


def tour():
    for path in sorted((HERE / "tour").glob("*.yaml")):
        show(path)
    print("\nIn the end:")
    dray("get", "pods", "-o", "wide")


def run():
    os.chdir(HERE.parent)
    lab = f"{HERE.name}/lab"
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = os.environ["KUBECONFIG"] = f"{folder}/kubeconfig"
        print(f"$ dray up {lab}")
        command = [sys.executable, "-c", "from dray.cli import main; main()"]
        up = subprocess.Popen(
            [*command, "up", lab, "--port", "0", "--kubeconfig", kubeconfig],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            print(up.stdout.readline(), end="", flush=True)
            if not up.stdout.readline():
                sys.exit("dray up did not start")
            tour()
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(PATIENCE)
            up.stdout.close()
    print(
        "\nTo go on, in one shell:\n"
        f"  dray up {lab}\n"
        "and in another, with kubectl or, where there is none, with dray:\n"
        "  export KUBECONFIG=dray.kubeconfig\n"
        f"  kubectl apply -f {HERE.name}/tour/1-one-gpu.yaml\n"
        "  kubectl get pods,resourceclaims -o wide\n"
        "  dray explain pod/notebook"
    )


if __name__ == "__main__":
    run()
