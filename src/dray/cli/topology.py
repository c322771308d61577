"""`dray topology`: where the devices of nodes sit, what is free, and who holds the rest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from dray.allocation.device_states import DeviceState, device_states
from dray.api.objects import Object, key_of
from dray.api.suggestions import suggestion
from dray.cli.cluster import Cluster, Where, ask, sourced
from dray.cli.devices import listed
from dray.cli.output_formats import output_option, structured
from dray.cli.topology_model import Spot, node_spots


@click.command()
@click.argument("node", default="", metavar="[NODE]")
@click.option(
    "--filename", "-f", "paths", multiple=True, metavar="PATH", help="Read manifests instead of a cluster; repeatable."
)
@output_option("text", "json", "yaml", "svg")
@sourced
def topology(
    node: str, paths: tuple[str, ...], output: str, kubeconfig: Path | None, context: str, snapshot: Path | None
) -> None:
    """Draw the sockets, NUMA nodes and PCIe roots of NODE or of all nodes, with their devices.

    The devices come from a cluster, or with -f from manifests. Devices that the pods and claims in manifests would get
    are shown as in use.

    \b
    Examples:
      dray topology
      dray topology p4d-24xlarge-0
      dray topology -f examples/lab -o svg > lab.svg
      dray topology --snapshot monday.snapshot

    Exit status: 0 drawn, 1 the server refused, 2 the node does not exist, or the server cannot be reached.
    """
    if paths:
        sys.exit(_show(_of_files(paths), node, output))

    async def work(cluster: Cluster) -> int:
        return _show(await listed(cluster), node, output)

    ask(Where(kubeconfig, context, "", snapshot), work)


def _show(states: list[DeviceState], node: str, output: str) -> int:
    nodes = node_spots(states)
    found = [each for each in nodes if node in ("", each.name)]
    if not found:
        known = f"; {suggestion(node, [each.name for each in nodes])}" if nodes else ""
        click.echo(f"error: no devices {f'on node {node}' if node else 'on any node'}{known}", err=True)
        return 2
    click.echo(_drawn(found, output), nl=False)
    return 0


def _drawn(nodes: Sequence[Spot], output: str) -> str:
    if output == "svg":
        from dray.cli.topology_svg import svg_of

        return svg_of(nodes)
    from dray.cli.topology_text import document_of, text_of

    if output != "text":
        return structured([document_of(each) for each in nodes], output)
    return "".join(f"{line}\n" for each in nodes for line in text_of(each))


def _of_files(paths: tuple[str, ...]) -> list[DeviceState]:
    """The devices in the files, as they are once everything there that fits is placed."""
    from dray.allocation import POLICIES
    from dray.cli.allocate import load_manifests
    from dray.cli.stored import read_objects

    cluster, manifests = load_manifests(paths, POLICIES["kubernetes"], "")
    stored = read_objects(manifests)
    claims = {key_of(each): each for each in stored.of("ResourceClaim")}
    pods = []
    for placement in map(cluster.place, cluster.wanted):
        claims |= {key: _claim(*key, allocation) for key, allocation in placement.allocations.items()}
        if placement.fits and placement.wanted.kind == "pod":
            pods.append(placement.wanted.pod)
    return device_states(stored.of("ResourceSlice"), claims.values(), pods, stored.of("DeviceTaintRule"))


def _claim(namespace: str, name: str, allocation: Object) -> Object:
    return {"metadata": {"namespace": namespace, "name": name}, "status": {"allocation": allocation}}
