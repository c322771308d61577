"""`dray allocate`: which devices the claims and pods of some manifests would get, or why not. No server needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Final

import click

from dray.allocation import POLICIES
from dray.allocation.alike import alike
from dray.allocation.text import nodes_text, summary
from dray.api.objects import Object, mapping
from dray.cli.manifests import Manifest, read
from dray.cli.placement import Cluster, Placement, read_cluster
from dray.cli.reports import one_line
from dray.cli.stored import Unusable


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--node", default="", metavar="NAME", help="Ask this node only.")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="kubernetes", show_default=True)
@click.option("--output", "-o", type=click.Choice(["text", "yaml", "json"]), default="text", show_default=True)
def allocate(paths: tuple[str, ...], node: str, policy: str, output: str) -> None:
    """Show which devices claims and pods get, or why they get none.

    PATH is YAML or JSON, a directory of them, or - for standard input: nodes, ResourceSlices, DeviceClasses,
    claims, claim templates and pods. Claims that are allocated already hold their devices. Pods are placed first,
    then claims that no pod uses, in the order of the files; each gets the first node that serves it.

    Exit status: 0 everything fits, 1 something does not, 2 a file cannot be read.
    """
    cluster = load(paths, node)
    for note in cluster.notes:
        click.echo(one_line(f"note: {note}"), err=True)
    placements = [cluster.place(wanted, POLICIES[policy]) for wanted in cluster.wanted]
    _WRITERS[output](placements, cluster)
    sys.exit(0 if all(placement.fits for placement in placements) else 1)


def load(paths: tuple[str, ...], node: str = "") -> Cluster:
    """The cluster in the files; leaves with status 2 where there is none to be had."""
    reading = read(paths)
    problems = [str(problem) for problem in reading.problems]
    cluster = None
    if not problems:
        cluster = _read_cluster(reading.manifests, node, problems)
    if cluster is None:
        for problem in problems:
            click.echo(one_line(problem), err=True)
        sys.exit(2)
    return cluster


def _read_cluster(manifests: list[Manifest], node: str, problems: list[str]) -> Cluster | None:
    try:
        cluster = read_cluster(manifests, node)
    except Unusable as unusable:
        problems += map(str, unusable.problems)
        return None
    if node and not cluster.nodes:
        problems.append(f"there is no node {node}: give a Node, or a ResourceSlice that names it")
        return None
    return cluster


def _text(placements: list[Placement], cluster: Cluster) -> None:
    for placement in placements:
        wanted = placement.wanted
        click.echo(f"{wanted.title}: {f'on node {placement.node}' if placement.fits else 'does not fit'}")
        if wanted.missing:
            click.echo(f"  {wanted.missing}")
        for line in _devices(placement) if placement.fits else _refusals(placement):
            click.echo(f"  {one_line(line)}")
    fitting = sum(placement.fits for placement in placements)
    click.echo(f"{fitting} of {len(placements)} fit" if placements else "nothing to allocate")


def _devices(placement: Placement) -> list[str]:
    if placement.allocation is None:
        return []
    lines = []
    resources = {each["requestName"]: each["resourceName"] for each in placement.mappings}
    for (_, name), result in zip(placement.allocation.claims, placement.allocation.results, strict=True):
        for device in result["devices"].get("results") or ():
            where = "/".join((device["driver"], device["pool"], device["device"]))
            consumed = ", ".join(f"{amount} {what}" for what, amount in mapping(device.get("consumedCapacity")).items())
            label = device["request"] if placement.wanted.kind == "claim" else f"{name}, {device['request']}"
            if name == placement.wanted.special_name:
                label = resources.get(device["request"], label)
            lines.append(f"{label}: {where}{f' ({consumed})' if consumed else ''}")
    return lines


def _refusals(placement: Placement) -> list[str]:
    if not placement.rejections and not placement.wanted.missing:
        return ["no node is eligible"]
    order = {rejection.node: number for number, rejection in enumerate(placement.rejections)}
    groups = sorted(alike(placement.rejections), key=lambda group: order[group[0].node])
    return [f"{nodes_text([each.node for each in group])}: {summary(group[0])}" for group in groups]


def _rows(placements: list[Placement]) -> list[Object]:
    rows: list[Object] = []
    for placement in placements:
        wanted = placement.wanted
        row: Object = {"kind": wanted.kind, "namespace": wanted.namespace, "name": wanted.name, "fits": placement.fits}
        if placement.fits:
            row["node"] = placement.node
        if placement.allocation is not None:
            pairs = zip(placement.allocation.claims, placement.allocation.results, strict=True)
            row["claims"] = [{"namespace": key[0], "name": key[1], "allocation": result} for key, result in pairs]
        if placement.mappings:
            row["claims"][-1]["requestMappings"] = placement.mappings
        if not placement.fits:
            row["reasons"] = [{"node": each.node, "reason": summary(each)} for each in placement.rejections]
            if wanted.missing:
                row["reasons"].append({"reason": wanted.missing})
        rows.append(row)
    return rows


def _json(placements: list[Placement], cluster: Cluster) -> None:
    click.echo(json.dumps(_rows(placements), indent=2, ensure_ascii=False))


def _yaml(placements: list[Placement], cluster: Cluster) -> None:
    from dray.yaml.writing import as_yaml

    click.echo(as_yaml(_rows(placements)), nl=False)


_WRITERS: Final[dict[str, Callable[[list[Placement], Cluster], None]]] = {"text": _text, "json": _json, "yaml": _yaml}
