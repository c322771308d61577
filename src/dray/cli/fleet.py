"""`dray fleet`: the machine types that can be simulated, one of them in full, and a live cluster as a fleet file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dray.answers.one_line import one_line
from dray.answers.views.device_facts import capacity, kind, place, table
from dray.api.objects import Object
from dray.cli.cluster import Cluster, Where, ask, reaching
from dray.cli.output_formats import output_option, structured
from dray.yaml.writing import as_yaml

if TYPE_CHECKING:
    from dray.fleet.documents import Content, Library
    from dray.fleet.machine import Machine
    from dray.fleet.machine_type import MachineType

_OUTPUTS: Final = ("table", "json", "yaml")
_TEMPLATES: Final = ("slices", "nodes", "karpenter", "capi")
_COLUMNS: Final = ("Name", "CPUs", "Memory", "GPUs", "TPUs", "NICs", "NUMA", "Price", "Source", "Description")


@click.group()
def fleet() -> None:
    """List machine types for simulation, or copy a cluster as some.

    \b
    Examples:
      dray fleet list
      dray up --fleet p5.48xlarge=4
    """


@fleet.command("list")
@click.option("--file", "-f", "files", multiple=True, metavar="FILE", help="File with more machine types; repeatable.")
@output_option(*_OUTPUTS, "name")
def list_(files: tuple[str, ...], output: str) -> None:
    """List the machine types.

    \b
    Examples:
      dray fleet list
      dray fleet list -f examples/fleet/workshop.yaml

    Exit status: 0 printed, 2 a file is wrong.
    """
    from dray.fleet.catalogue import machine_type

    known = _library(files)
    types = [machine_type(name, known) for name in known.machine_types]
    if output == "name":
        click.echo("".join(f"{type_.name}\n" for type_ in types), nl=False)
        return
    if output != "table":
        _print([_document(found.content) for found in known.machine_types.values()], output)
        return
    for line in table(_COLUMNS, [_row(type_) for type_ in types]):
        click.echo(line)


@fleet.command()
@click.argument("name")
@click.option("--file", "-f", "files", multiple=True, metavar="FILE", help="File with more machine types; repeatable.")
@output_option(*_OUTPUTS, *_TEMPLATES)
def show(name: str, files: tuple[str, ...], output: str) -> None:
    """Print a machine type and its devices.

    NAME can include a mode for GPUs, as in --fleet: p5.48xlarge:mig. The output of -o yaml can go into your own file.

    Autoscalers need to know what a machine has before it exists. The formats for them are YAML: `slices` and `nodes`
    are the ResourceSlices and the Node that a machine of this type would have, `karpenter` is a NodePool with the
    devices as a DRAConfig, and `capi` is a patch with the annotations that cluster-autoscaler reads from a
    MachineDeployment of Cluster API. What a format cannot express is listed on standard error.

    \b
    Examples:
      dray fleet show p5.48xlarge
      dray fleet show p5.48xlarge:mig -o yaml
      dray fleet show p5.48xlarge -o slices
      kubectl patch machinedeployment gpus --type merge -p "$(dray fleet show p5.48xlarge -o capi)"

    Exit status: 0 printed, 2 there is no such machine type, or a file is wrong.
    """
    from dray.cli.fleet_choice import chosen_fleet
    from dray.fleet.pools import pools_of

    chosen = chosen_fleet((*files, f"{name}=1"), None)
    machine = chosen.machines[-1]
    if output in _TEMPLATES:
        _print_template(machine, output)
        return
    if output != "table":
        _print([_document(_library(files).machine_types[machine.type.name].content)], output)
        return
    for line in table(_COLUMNS, [_row(machine.type)]):
        click.echo(line)
    rows = []
    for driver, contents in pools_of(machine).items():
        rows += [_device_row(driver, device) for content in contents for device in content.devices]
    click.echo()
    for line in table(("Driver", "Device", "Kind", "PCIe root", "NUMA", "Capacity"), rows):
        click.echo(line)


@fleet.command("import")
@reaching
@click.option(
    "--output",
    "-o",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write. Default: standard output.",
)
def import_(kubeconfig: Path | None, context: str, target: Path | None) -> None:
    """Copy a cluster as a file for `dray up --fleet`.

    The file describes the nodes and ResourceSlices of the cluster.

    \b
    Examples:
      dray fleet import -o production.yaml
      dray up --fleet production.yaml

    Exit status: 0 written, 1 the server refused, 2 the server cannot be reached, or the file cannot be written.
    """

    async def work(cluster: Cluster) -> int:
        return await _import(cluster, target)

    ask(Where(kubeconfig, context, ""), work)


async def _import(cluster: Cluster, target: Path | None) -> int:
    from dray.api.catalogue import built_in
    from dray.api.conversion import convert
    from dray.client.discovery import served_version
    from dray.fleet.importing import describe, elsewhere

    nodes = (await cluster.client.list_all(built_in("v1", "Node")))["items"]
    served = await served_version(cluster.client, "resource.k8s.io", "resourceslices")
    slices: list[Object] = []
    if served is not None:
        listed = (await cluster.client.list_all(served))["items"]
        named = {"apiVersion": served.api_version, "kind": "ResourceSlice"}
        slices = [convert({**document, **named}, "v1") for document in listed]
    documents = describe(nodes, slices)
    if not documents:
        click.echo("error: the cluster has no nodes to describe", err=True)
        return 2
    for name in elsewhere(slices):
        click.echo(f"left out: ResourceSlice {name} belongs to no single node", err=True)
    text = as_yaml(documents)
    if target is None:
        click.echo(text, nl=False)
        return 0
    try:
        target.write_text(text)
    except OSError as error:
        click.echo(f"error: cannot write {target}: {(error.strerror or str(error)).lower()}", err=True)
        return 2
    click.echo(f"{target}: {len(documents) - 1} machine types, {len(nodes)} nodes: dray up --fleet {target}", err=True)
    return 0


def _library(files: tuple[str, ...]) -> Library:
    from dray.fleet.catalogue import library
    from dray.fleet.documents import read_file
    from dray.yaml.text import ManifestError

    try:
        return library([found for file in files for found in read_file(Path(file))])
    except ManifestError as error:
        click.echo(one_line(str(error)), err=True)
        sys.exit(2)


def _document(content: Content) -> Object:
    import msgspec

    return dict(msgspec.to_builtins(content))


def _print(documents: list[Object], output: str) -> None:
    if output == "yaml":
        click.echo(as_yaml(documents), nl=False)
    else:
        click.echo(structured(documents[0] if len(documents) == 1 else documents, output), nl=False)


def _print_template(machine: Machine, output: str) -> None:
    from dray.fleet.templates import Template, capacity_annotations, karpenter_of, slices_of

    match output:
        case "slices":
            template = Template(tuple(slices_of(machine)))
        case "nodes":
            template = Template((machine.node(),))
        case "karpenter":
            template = karpenter_of(machine)
        case _:
            template = capacity_annotations(machine)
    for note in template.notes:
        click.echo(f"left out: {note}", err=True)
    click.echo(as_yaml(template.documents), nl=False)


def _row(machine: MachineType) -> tuple[Any, ...]:
    gpus = ", ".join(f"{len(each.slots)} {getattr(each.model, 'product_name', each.model)}" for each in machine.gpus)
    tpus = f"{machine.tpus.chips} {machine.tpus.accelerator}" if machine.tpus else ""
    nics = sum(len(nic.ports) for nic in machine.nics)
    numa = max(1, len(machine.numa_nodes))
    figures = (machine.name, machine.cpus, machine.memory, gpus or "-", tpus or "-", nics or "-", numa)
    return (*figures, machine.price_class, machine.source, machine.description or "-")


def _device_row(driver: str, device: Object) -> tuple[Any, ...]:
    return driver, device["name"], kind(device), *place(device), capacity(device)
