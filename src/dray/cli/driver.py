"""`dray driver`: a DRA driver beside a kubelet, or with `--inspect` what it would publish."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dray.answers.views.layout import Layout
from dray.api.objects import Object
from dray.cli.absolute_path import AbsolutePath
from dray.cli.cluster import Where, ending, reaching
from dray.cli.metrics import MetricsAddress, MetricsError, metrics_options, serving_metrics
from dray.cli.output_formats import manifests, output_option
from dray.cli.serving import log_to_stderr, run, stopping, until

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.client.endpoint import Endpoint
    from dray.driver import Driver, Pool, RunnerOptions
    from dray.driver.runner import DriverRunner
    from dray.process.up_state import UpNode

OUTPUTS: Final = ("table", "json", "yaml")
_DEVICE_FIELD: Final = re.compile(r"spec\.devices\[(\d+)\]")
_COLUMNS: Final = ("device", "pool", "shared", "capacity", "attributes")


def inspect_driver(driver: Driver, node: str, output: str) -> None:
    """Asks the driver for its devices, without starting it; raises DriverError if a server would refuse them."""
    from dray.driver import DriverError

    try:
        slices, left_out = asyncio.run(_slices(driver, node))
    except DriverError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}:{last.lineno}"
        raise DriverError(f"driver {driver.name} failed: {type(error).__name__}: {error} ({place})") from error
    if problems := [problem for slice_ in slices for problem in _refusals(slice_)]:
        raise DriverError(
            "an API server would refuse these devices:\n" + "\n".join(f"  {problem}" for problem in problems)
        )
    if output == "table":
        click.echo("".join(f"{line}\n" for line in _table(slices)), nl=False)
    else:
        click.echo(manifests(slices, output), nl=False)
    for each in left_out:
        # Whoever reads documents finds them alone.
        click.echo(f"left out: {each}", err=output != "table")


async def _slices(driver: Driver, node: str) -> tuple[list[Object], Sequence[str]]:
    from dray.client.api import ApiClient
    from dray.client.endpoint import Endpoint
    from dray.client.http import HttpTransport
    from dray.client.retries import Retries
    from dray.driver import DriverContext
    from dray.driver.driver import awaited

    with tempfile.TemporaryDirectory() as directory:
        # A client that reaches nothing: there is no cluster to ask.
        nothing = HttpTransport(Endpoint("http://127.0.0.1:9"))
        async with ApiClient(nothing, retries=Retries(attempts=1)) as client:
            driver.context = DriverContext(node, Path(directory), client, lambda: None)
            pools = await awaited(driver.pools(), f"{type(driver).__name__}.pools")
            left_out = await driver.left_out()
    return [slice_ for pool in pools for slice_ in _slices_of(pool, driver.name, node)], left_out


def _refusals(document: Object) -> list[str]:
    """Returns what an API server would say against a slice, by device where it is about one."""
    from dray.api import intake
    from dray.api.catalogue import built_in
    from dray.api.gates import ALL_GATES
    from dray.api.rules import Rules
    from dray.cel import Expressions

    kind = built_in("resource.k8s.io/v1", "ResourceSlice")
    named = {**document, "metadata": {"name": "inspected"}}
    answer = intake.create(named, kind, intake.Place(), Rules(ALL_GATES, Expressions()), now="1970-01-01T00:00:00Z")
    devices = document["spec"].get("devices", ())

    def placed(field: str) -> str:
        found = _DEVICE_FIELD.match(field)
        if found is None or int(found[1]) >= len(devices):
            return field
        return f"device {devices[int(found[1])].get('name')}{field[found.end() :].replace('.', ': ', 1)}"

    if not isinstance(answer, intake.Refusal):
        return []
    return [f"{placed(error.field)}: {error.message}" for error in answer.errors] or [answer.message]


def _slices_of(pool: Pool, driver: str, node: str) -> list[Object]:
    from dray.driver.devices import NodeSelection
    from dray.driver.slices.layout import check, contents

    check(pool)
    parts = contents(pool, {})
    nodes = {"perDeviceNodeSelection": True}
    if not pool.per_device_node_selection:
        nodes = (pool.nodes or NodeSelection(node_name=node)).document()
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": f"{index:05x}-{driver}-{node}-"},
            "spec": {
                "driver": driver,
                **nodes,
                "pool": {"name": pool.name, "generation": 1, "resourceSliceCount": len(parts)},
                **part,
            },
        }
        for index, part in enumerate(parts)
    ]


def _table(slices: list[Object]) -> list[str]:
    rows = [
        {"cells": _cells(device, slice_["spec"]["pool"]["name"])}
        for slice_ in slices
        for device in slice_["spec"].get("devices", ())
    ]
    if not rows:
        return ["No devices."]
    return Layout().lines([{"columnDefinitions": [{"name": name} for name in _COLUMNS], "rows": rows}])


def _cells(device: Object, pool: str) -> list[str]:
    capacity = {name: each["value"] for name, each in device.get("capacity", {}).items()}
    attributes = {name: _plain(each) for name, each in device.get("attributes", {}).items()}
    shared = "yes" if device.get("allowMultipleAllocations") else "no"
    return [device["name"], pool, shared, _pairs(capacity), _pairs(attributes)]


def _plain(attribute: Object) -> str:
    value = next(iter(attribute.values()))
    if isinstance(value, list):
        return "|".join(map(_scalar, value))
    return _scalar(value)


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(values: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(values.items()))


def _places(command: Any) -> Any:
    path = click.Path(path_type=Path)
    for option in (
        click.option(
            "--cdi-dir", type=path, default="/var/run/cdi", show_default=True, help="Directory for CDI files."
        ),
        click.option(
            "--registry-dir", type=path, help="Directory for registration. Default: <kubelet root>/plugins_registry."
        ),
        click.option(
            "--plugin-dir", type=path, help="Directory of the driver. Default: <kubelet root>/plugins/<driver>."
        ),
        click.option(
            "--kubelet-root", type=path, default="/var/lib/kubelet", show_default=True, help="Kubelet directory."
        ),
    ):
        command = option(command)
    return command


@click.command(name="driver")
@click.argument("name")
@reaching
@click.option("--node-name", default="", metavar="NAME", help="Node name. Default: $NODE_NAME, or the host name.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the driver; repeatable.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML file with settings; --set overrides it.",
)
@_places
@click.option(
    "--data",
    type=AbsolutePath(file_okay=False),
    help="Run beside the node of the `dray up` with this data directory; creates the driver's DeviceClasses.",
)
@click.option("--pod-uid", default="", metavar="UID", help="UID of the pod, for rolling updates. Default: $POD_UID.")
@click.option("--metadata/--no-metadata", default=False, help="Write metadata files for containers.")
@metrics_options
@click.option("--inspect", is_flag=True, help="Print the devices that the driver would publish, and exit.")
@output_option(*OUTPUTS, description="Output format of --inspect.")
def driver(
    name: str,
    kubeconfig: Path | None,
    context: str,
    node_name: str,
    settings: tuple[str, ...],
    config: Path | None,
    kubelet_root: Path,
    plugin_dir: Path | None,
    registry_dir: Path | None,
    cdi_dir: Path,
    data: Path | None,
    pod_uid: str,
    metadata: bool,
    metrics_bind: str,
    metrics_port: int | None,
    inspect: bool,
    output: str,
) -> None:
    """Run the driver NAME beside the kubelet of this machine.

    NAME is one of those that come with dray (cpu, gpu, nic, tpu, tpu-slices, simulated-gpu, simulated-nic,
    simulated-tpu), one that an installed package offers as an entry point of the group dray.drivers, or module:Class.

    It runs until it is interrupted; prepared claims stay prepared.

    \b
    Examples:
      dray driver gpu --inspect
      dray driver my_package:MyDriver --data ~/lab
      dray driver nic --set names=eth1

    Exit status: 0 interrupted, 1 the server refused or the driver failed, 2 it cannot start.
    """
    from dray.cli.machine import short_root
    from dray.driver import DriverError, RunnerOptions
    from dray.drivers.registry import load

    node = node_name or os.environ.get("NODE_NAME", "") or socket.gethostname().lower()
    try:
        if data is not None:
            beside = _node_of(data)
            kubelet_root = short_root(Path(beside.root))
            node, cdi_dir = beside.name, kubelet_root / "cdi"
            kubeconfig = kubeconfig or data / "kubeconfig"
        made = load(name, _settings(config, settings))
        if inspect:
            inspect_driver(made, node, output)
            return
        options = RunnerOptions(
            node_name=node if made.of_node else "",
            kubelet_root=kubelet_root,
            directory=plugin_dir,
            registry_directory=registry_dir,
            cdi_directory=cdi_dir,
            pod_uid=pod_uid or os.environ.get("POD_UID", ""),
            metadata_versions=("v1beta1",) if metadata else (),
        )
        where, metrics = Where(kubeconfig, context, ""), MetricsAddress(metrics_bind, metrics_port)
        _serve(where, made, options, metrics, makes_classes=data is not None)
    except (DriverError, MetricsError) as error:
        _fail(str(error))
    except PermissionError as error:
        _fail(f"{error.strerror}: {error.filename}; run it as root, or give it directories that it may write")
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))


def _node_of(data: Path) -> UpNode:
    """Returns the node that `dray up` runs with this directory; raises UsageError if there is none."""
    from dray.process import up_state

    state = up_state.read(data)
    if state is None:
        raise click.UsageError(f"no cluster runs with {data}; start one with `dray up --node --data {data}`")
    own = [node for node in state.nodes if Path(node.root).parent == data.absolute()]
    if not own:
        raise click.UsageError(f"the cluster with {data} has no node on this machine; start it with --node")
    return own[0]


def _fail(problem: str) -> None:
    click.echo(f"error: {problem}", err=True)
    sys.exit(2)


def _settings(config: Path | None, given: tuple[str, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if config is not None:
        from dray.yaml.documents import first
        from dray.yaml.text import ManifestError

        try:
            content, _ = first(config.read_bytes())
        except ManifestError as error:
            raise click.UsageError(f"--config {config}: {error}") from error
        if not isinstance(content, dict | None):
            raise click.UsageError(f"--config {config}: it should hold settings, key: value")
        settings |= content or {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--set {setting}: write KEY=VALUE")
        settings[key] = value
    return settings


def _serve(
    where: Where, driver: Driver, options: RunnerOptions, metrics: MetricsAddress, *, makes_classes: bool
) -> None:
    log_to_stderr()
    ending(where, lambda endpoint: run(_run(endpoint, driver, options, metrics, makes_classes=makes_classes)))


async def _run(
    endpoint: Endpoint, driver: Driver, options: RunnerOptions, metrics: MetricsAddress, *, makes_classes: bool
) -> int:
    from dray.client.api import ApiClient
    from dray.client.first_contact import FirstContact
    from dray.client.http import HttpTransport
    from dray.client.server_health import ServerHealth
    from dray.driver.runner import DriverRunner

    stop = stopping()
    health, contact = ServerHealth(endpoint.server), FirstContact(endpoint.server)
    async with ApiClient(HttpTransport(endpoint, health=health)) as client:
        runner = DriverRunner(driver, client, options)

        def obstacles() -> list[str]:
            return [*filter(None, [health.trouble or contact.trouble, _unregistered(runner)])]

        async with serving_metrics(metrics, lambda: [runner.metrics.registry], obstacles) as url:
            if not await until(stop, contact.reach(lambda: client.request("GET", "/version"))):
                return 0
            if makes_classes:
                await _make_classes(client, driver.name)
            async with runner:
                place = f"node {options.node_name} at {endpoint.server}" if options.node_name else endpoint.server
                click.echo(f"Driver {driver.name} of {place}{f', metrics at {url}' if url else ''}")
                return await _until_stopped(runner, stop)


async def _make_classes(client: ApiClient, driver: str) -> None:
    """Creates the classes of the driver; one of its name for a driver whose classes are not known."""
    from dray.client.errors import ApiError
    from dray.drivers.class_creation import make_classes, make_plain_class

    try:
        if not await make_classes(client, [driver]):
            await make_plain_class(client, driver)
    except ApiError as error:
        click.echo(f"warning: cannot create the DeviceClasses of {driver}: {error}", err=True)


def _unregistered(runner: DriverRunner) -> str:
    if not runner.options.node_name or runner.registration.registered.is_set():
        return ""
    said = runner.registration.status
    reason = f": {said.error}" if said is not None and said.error else ""
    return f"the kubelet has not registered driver {runner.driver.name}{reason}"


async def _until_stopped(runner: DriverRunner, stop: asyncio.Event) -> int:
    serving = asyncio.create_task(runner.serve())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    failed = serving.done() and not stop.is_set()
    for task in (serving, stopped):
        task.cancel()
    (ended, _) = await asyncio.gather(serving, stopped, return_exceptions=True)
    if failed and isinstance(ended, BaseException):
        click.echo(f"error: driver {runner.driver.name} failed: {type(ended).__name__}: {ended}", err=True)
    return 1 if failed else 0
