"""`dray run`: a command on a cluster, with devices, in one line.

It makes a claim and a pod, says what they wait for, copies the output, and ends with the status of the command. The
pod is `run_objects`, its way from creation to end `run_session`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from dray.api.catalogue import built_in
from dray.api.objects import Object, metadata_of, spec_of, walk
from dray.api.quantity import Quantity, QuantityError
from dray.cli.cluster import Cluster, Where, ask, located
from dray.cli.durations import seconds
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


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@click.option("--gpu", type=click.IntRange(1, 32), metavar="COUNT", help="So many GPUs.")
@click.option("--gpu-class", default="", metavar="NAME", help="Their DeviceClass, where there are several.")
@click.option("--memory", default="", callback=_memory, metavar="AMOUNT", help="So much memory on each GPU.")
@click.option("--select", "selectors", multiple=True, metavar="CEL", help="Which GPUs, as an expression; repeatable.")
@click.option("--cpu", type=click.IntRange(1), metavar="COUNT", help="So many CPUs for this command alone.")
@click.option(
    "--class", "classes", multiple=True, callback=_classes, metavar="NAME=COUNT", help="Devices of a class; repeatable."
)
@click.option(
    "--match",
    multiple=True,
    metavar="ATTRIBUTE",
    help="All devices but CPUs have the same, as in pcieRoot or numaNode; repeatable.",
)
@click.option("--image", default="", help="Without it, the command is one of the machine that runs it.")
@click.option("--node", default="", metavar="NAME", help="On this node only.")
@click.option("--priority-class", default="", metavar="NAME", help="How it compares to others.")
@click.option("--env", "environment", multiple=True, callback=_variables, metavar="NAME[=VALUE]", help="Repeatable.")
@click.option("--workdir", default="", metavar="DIR", help="Without it and without an image, this directory.")
@click.option("--name", default="", help="Of pod and claim; without it, run- and a few letters.")
@click.option("--keep", is_flag=True, help="Leave pod and claim when the command has ended.")
@click.option(
    "--timeout", callback=seconds, metavar="DURATION", help="Give up if it has not started by then; 0 at once."
)
@click.option("--quiet", "-q", is_flag=True, help="Nothing but the output of the command.")
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
    image: str,
    node: str,
    priority_class: str,
    environment: dict[str, str],
    workdir: str,
    name: str,
    keep: bool,
    timeout: float | None,
    quiet: bool,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Run a command with devices, and end with its exit status.

    A claim and a pod are made; while they wait it is said for what. Ctrl-C deletes them.

    Exit status: that of the command; 1 the server refused or the pod was taken away, 2 the server cannot be asked, 124
    not started before --timeout, 127 its command cannot be started, 130 interrupted.
    """
    requests = [
        *([DeviceRequest(GPUS, gpu_class, gpu, memory, selectors=selectors)] if gpu else ()),
        *(DeviceRequest(f"devices-{number}", each, count) for number, (each, count) in enumerate(classes)),
        *([DeviceRequest(CPUS, CPU_CLASS, cpus=cpu)] if cpu else ()),
    ]
    if (memory or selectors or gpu_class) and not gpu:
        raise click.UsageError("--memory, --select and --gpu-class are about GPUs: say how many with --gpu")
    asked = Run(
        name,
        "",
        command,
        requests,
        [attribute(each) for each in match],
        image,
        workdir or ("" if image else os.getcwd()),
        environment,
        node,
        priority_class=priority_class,
    )
    line = StatusLine(quiet=quiet)
    ask(Where(kubeconfig, context, namespace), lambda cluster: _run(cluster, asked, line, keep, timeout))


async def _run(cluster: Cluster, asked: Run, line: StatusLine, keep: bool, timeout: float | None) -> int:
    from dray.cli.run_session import Session

    if asked.requests:
        known = await _listed(cluster, "resource.k8s.io/v1", "DeviceClass")
        asked = replace(asked, requests=[_of_known_class(each, known) for each in asked.requests])
    if nodes := await _listed(cluster, "v1", "Node"):
        asked = replace(asked, among=_with_images(nodes) if asked.image else _able(nodes))
    session = Session(cluster.client, replace(asked, namespace=cluster.namespace), line)
    return await session.run(keep=keep, timeout=timeout)


async def _listed(cluster: Cluster, api_version: str, kind: str) -> list[Object] | None:
    """None for whoever may not see them."""
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
        able = [str(metadata_of(each)["name"]) for each in nodes if _runtime(each).startswith(runtime)]
        if able:
            return able if len(able) < len(nodes) else []
    raise click.ClickException("the nodes of this cluster run images: give --image, as in --image python:3.12")


def _with_images(nodes: list[Object]) -> list[str]:
    """The nodes that run images; none where all do."""
    able = [str(metadata_of(each)["name"]) for each in nodes if not _runtime(each).startswith(_PROCESSES)]
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
    names = sorted(str(metadata_of(each)["name"]) for each in known)
    wanted = request.device_class
    if not wanted:
        gpus = sorted(metadata_of(each)["name"] for each in known if _has_gpus(each))
        if _NVIDIA in gpus or len(gpus) == 1:
            return replace(request, device_class=_NVIDIA if _NVIDIA in gpus else gpus[0])
        problem = f"several classes have GPUs: {', '.join(gpus)}" if gpus else "no DeviceClass is known to have GPUs"
        raise click.ClickException(f"{problem}; say which with --gpu-class. There are: {', '.join(names) or 'none'}")
    if wanted not in names:
        raise click.ClickException(f"there is no DeviceClass {wanted}; there are: {', '.join(names) or 'none'}")
    return request


def _has_gpus(device_class: Object) -> bool:
    name, extended = (
        str(metadata_of(device_class)["name"]),
        str(spec_of(device_class).get("extendedResourceName") or ""),
    )
    return name.startswith("gpu.") or extended.endswith("/gpu")
