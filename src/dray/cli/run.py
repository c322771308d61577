"""`dray run`: runs a command on a cluster, with devices, in one line.

It creates a claim and a pod, prints what they wait for, copies the output, and ends with the exit status of the
command. `run_objects` builds the pod, `run_session` follows it from its creation to its end.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import termios
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from dray.api.catalogue import built_in
from dray.api.objects import Object, metadata_of, spec_of, walk
from dray.api.quantity import Quantity, QuantityError
from dray.api.suggestions import suggestion
from dray.cli.cluster import Cluster, Where, ask, located
from dray.cli.durations import seconds
from dray.cli.queue_labels import queue_label
from dray.cli.run_objects import CPU_CLASS, CPUS, GPUS, DeviceRequest, Run, attribute
from dray.cli.status_line import StatusLine

_NVIDIA: Final = "gpu.nvidia.com"
_PROCESSES: Final = "process://"
_IMAGELESS: Final = (_PROCESSES, "simulated://")


def _memory(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        if value and Quantity.parse(value).sign() <= 0:
            raise QuantityError(value)
    except QuantityError:
        raise click.BadParameter(f"{value!r} is not an amount of memory like 20Gi") from None
    return value


def _classes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    found = []
    for value in values:
        name, _, count = value.partition("=")
        if not name or not (count or "1").isdecimal() or not 0 < int(count or "1") <= 32:
            raise click.BadParameter(f"{value!r} is not NAME=COUNT, with a count from 1 to 32")
        found.append((name, int(count or "1")))
    return tuple(found)


def _variables(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """NAME alone takes the value from here."""
    pairs = [value.partition("=") for value in values]
    return {name: value if equals else os.environ.get(name, "") for name, equals, value in pairs}


def _labels(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for name, equals, value in pairs:
        if not (name and equals):
            raise click.BadParameter(f"{name + equals + value!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@click.option("--gpu", type=click.IntRange(1, 32), metavar="COUNT", help="Number of GPUs.")
@click.option("--gpu-class", default="", metavar="NAME", help="DeviceClass of the GPUs, if there are several.")
@click.option("--memory", default="", callback=_memory, metavar="AMOUNT", help="Memory on each GPU, as in 20Gi.")
@click.option("--select", "selectors", multiple=True, metavar="CEL", help="CEL selector for the GPUs; repeatable.")
@click.option("--cpu", type=click.IntRange(1), metavar="COUNT", help="Number of exclusive CPUs.")
@click.option(
    "--class", "classes", multiple=True, callback=_classes, metavar="NAME=COUNT", help="Devices of a class; repeatable."
)
@click.option(
    "--match",
    multiple=True,
    metavar="ATTRIBUTE",
    help="Attribute that all devices but CPUs share, as in pcieRoot or numaNode; repeatable.",
)
@click.option("--queue", default="", metavar="NAME", help="Queue that the pod waits in.")
@click.option("--image", default="", help="Container image. Default: run the node's own command.")
@click.option("--node", default="", metavar="NAME", help="Run on this node only.")
@click.option("--priority-class", default="", metavar="NAME", help="PriorityClass of the pod.")
@click.option(
    "--env",
    "environment",
    multiple=True,
    callback=_variables,
    metavar="NAME[=VALUE]",
    help="Environment variable; without a value, the one set here. Repeatable.",
)
@click.option(
    "--label", "labels", multiple=True, callback=_labels, metavar="NAME=VALUE", help="Label of the pod; repeatable."
)
@click.option("--workdir", default="", metavar="DIR", help="Working directory. Default: the current one, if no image.")
@click.option("--name", default="", help="Name of pod and claim. Default: run- and five letters.")
@click.option("--stdin", "-i", "stdin", is_flag=True, help="Connect the input of the command.")
@click.option("--tty", "-t", "tty", is_flag=True, help="Give the command a terminal; with -i for a shell.")
@click.option("--detach", "-d", is_flag=True, help="Return at once; `dray attach` follows the pod later.")
@click.option("--keep", is_flag=True, help="Keep pod and claim when the command has ended.")
@click.option("--time-limit", callback=seconds, metavar="DURATION", help="End the command after it ran this long.")
@click.option(
    "--timeout", callback=seconds, metavar="DURATION", help="Give up if it has not started by then; 0: if it must wait."
)
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but the output of the command.")
@located
def run(
    command: tuple[str, ...],
    gpu: int | None,
    gpu_class: str,
    memory: str,
    selectors: tuple[str, ...],
    cpu: int | None,
    classes: tuple[tuple[str, int], ...],
    match: tuple[str, ...],
    queue: str,
    image: str,
    node: str,
    priority_class: str,
    environment: dict[str, str],
    labels: dict[str, str],
    workdir: str,
    name: str,
    stdin: bool,
    tty: bool,
    detach: bool,
    keep: bool,
    time_limit: float | None,
    timeout: float | None,
    quiet: bool,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Run a command with devices, and end with its exit status.

    Creates a claim and a pod, and prints what they are waiting for. Ctrl-C deletes both. If the terminal is lost, the
    command keeps running, and `dray attach` follows it again.

    \b
    Examples:
      dray run --gpu 1 -- nvidia-smi -L
      dray run --gpu 2 --match pcieRoot --queue team-a -- python train.py
      dray run --gpu 1 --detach --name sweep --time-limit 8h -- ./sweep.sh
      dray run -it --gpu 1 -- bash

    Exit status: that of the command; 1 the server refused or the pod was deleted, 2 the server cannot be reached, 124
    not started before --timeout, 127 the command cannot be started, 129 the terminal was lost, 130 interrupted.
    """
    requests = [
        *([DeviceRequest(GPUS, gpu_class, gpu, memory, selectors=selectors)] if gpu else ()),
        *(DeviceRequest(f"devices-{number}", each, count) for number, (each, count) in enumerate(classes)),
        *([DeviceRequest(CPUS, CPU_CLASS, cpus=cpu)] if cpu else ()),
    ]
    if (memory or selectors or gpu_class) and not gpu:
        raise click.UsageError("--memory, --select and --gpu-class need --gpu COUNT")
    if time_limit is not None and time_limit < 1:
        raise click.UsageError("--time-limit must be at least one second")
    if tty and not (stdin or detach):
        raise click.UsageError("--tty needs --stdin: give -it")
    asked = Run(
        name,
        "",
        command,
        requests,
        [attribute(text) for text in match],
        image,
        workdir or ("" if image else os.getcwd()),
        environment,
        node,
        priority_class=priority_class,
        labels=labels,
        time_limit=round(time_limit or 0),
        stdin=stdin,
        tty=tty,
    )
    line = StatusLine(quiet=quiet)

    async def work(cluster: Cluster) -> int:
        from dray.cli.pod_following import Streams
        from dray.cli.run_session import Manner, Session

        manner = Manner(keep, detach, timeout, Streams(stdin, tty))
        status = await Session(cluster, await _completed(cluster, asked, queue), line, manner).run()
        if not (stdin or detach) and _input_waits():
            line.say("note: nothing read the input; -i connects it to the command")
        return status

    ask(Where(kubeconfig, context, namespace), work)


def _input_waits() -> bool:
    """Returns True if the input is a pipe with something in it."""
    try:
        if not stat.S_ISFIFO(os.fstat(0).st_mode):
            return False
        return bool(int.from_bytes(fcntl.ioctl(0, termios.FIONREAD, bytes(4)), sys.byteorder))
    except OSError:
        return False


async def _completed(cluster: Cluster, asked: Run, queue: str) -> Run:
    """Fills in what only the cluster knows: classes, nodes that can run the command, the label of the queue."""
    if asked.requests:
        known = await _listed(cluster, "resource.k8s.io/v1", "DeviceClass")
        asked = replace(asked, requests=[_of_known_class(request, known) for request in asked.requests])
    if nodes := await _listed(cluster, "v1", "Node"):
        asked = replace(asked, among=_with_images(nodes) if asked.image else _able(nodes))
    if queue:
        asked = replace(asked, labels={**asked.labels, await queue_label(cluster, queue): queue})
    return replace(asked, namespace=cluster.namespace)


async def _listed(cluster: Cluster, api_version: str, kind: str) -> list[Object] | None:
    """Lists objects of a kind; None if the user may not list them."""
    from dray.client.errors import ApiError

    try:
        found = await cluster.client.list_all(built_in(api_version, kind))
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return None
    return list(found.get("items") or ())


def _able(nodes: list[Object]) -> list[str]:
    """The nodes that run commands without an image; none where all do. On nodes of fleets nothing runs."""
    for runtime in _IMAGELESS:
        able = [str(metadata_of(node)["name"]) for node in nodes if _runtime(node).startswith(runtime)]
        if able:
            return able if len(able) < len(nodes) else []
    raise click.ClickException("the nodes of this cluster run images: give --image, as in --image python:3.12")


def _with_images(nodes: list[Object]) -> list[str]:
    """The nodes that run images; none where all do."""
    able = [str(metadata_of(node)["name"]) for node in nodes if not _runtime(node).startswith(_PROCESSES)]
    if not able:
        raise click.ClickException(
            "the nodes of this cluster run no images: leave out --image, or start a node with --runtime podman"
        )
    return able if len(able) < len(nodes) else []


def _runtime(node: Object) -> str:
    return str(walk(node, "status", "nodeInfo").get("containerRuntimeVersion") or "")


def _of_known_class(request: DeviceRequest, known: list[Object] | None) -> DeviceRequest:
    if known is None:
        return replace(request, device_class=request.device_class or _NVIDIA)
    names = sorted(str(metadata_of(obj)["name"]) for obj in known)
    wanted = request.device_class
    if not wanted:
        gpus = sorted(metadata_of(obj)["name"] for obj in known if _has_gpus(obj))
        if _NVIDIA in gpus or len(gpus) == 1:
            return replace(request, device_class=_NVIDIA if _NVIDIA in gpus else gpus[0])
        problem = f"several classes have GPUs: {', '.join(gpus)}" if gpus else "no DeviceClass is known to have GPUs"
        raise click.ClickException(f"{problem}; choose one with --gpu-class. There are: {', '.join(names) or 'none'}")
    if wanted not in names:
        raise click.ClickException(f"DeviceClass {wanted} not found; {suggestion(wanted, names)}")
    return request


def _has_gpus(device_class: Object) -> bool:
    name, extended = (
        str(metadata_of(device_class)["name"]),
        str(spec_of(device_class).get("extendedResourceName") or ""),
    )
    return name.startswith("gpu.") or extended.endswith("/gpu")
