"""`dray allocate`: which devices the claims and pods of some manifests would get, or why not. No server needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from dray.allocation import POLICIES, Policy
from dray.allocation.nearness import alike
from dray.allocation.text import nodes_text, summary
from dray.api.objects import Object
from dray.api.resource_claims import allocation_results
from dray.cli.cluster import snapshot_option
from dray.cli.explanation_trees import device
from dray.cli.explanations import claim_rows
from dray.cli.manifests import Manifest, read
from dray.cli.output_formats import output_option, structured
from dray.cli.placement import Cluster, Placement, read_cluster
from dray.cli.plugins import plugin_option
from dray.cli.policies import policy_option
from dray.cli.reports import one_line
from dray.cli.stored import Unusable


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--node", default="", metavar="NAME", help="Consider this node only.")
@policy_option
@output_option("text", "json", "yaml")
@plugin_option
@snapshot_option
def allocate(
    paths: tuple[str, ...], node: str, policy: str, output: str, plugins: tuple[str, ...], snapshot: Path | None
) -> None:
    """Show which devices claims and pods get, or why they get none.

    PATH is a YAML or JSON file, a directory, or - for standard input. It holds nodes, ResourceSlices, DeviceClasses,
    claims, claim templates and pods. Claims that are allocated already keep their devices. Pods are placed first, with
    the filters and scores of the scheduler. Claims that no pod uses follow in the order of the files. If several nodes
    are equally good, the first one is used.

    With --snapshot the pods and claims of the files are placed on the nodes of that cluster, beside the pods that run
    there.

    \b
    Examples:
      dray allocate examples/cluster
      dray allocate examples/cluster --node big -o json
      dray allocate job.yaml --snapshot monday.snapshot

    Exit status: 0 everything fits, 1 something does not, 2 a file cannot be read.
    """
    cluster = load(paths, POLICIES[policy], node, plugins, snapshot)
    for note in cluster.notes:
        click.echo(one_line(f"note: {note}"), err=True)
    placements = [cluster.place(wanted) for wanted in cluster.wanted]
    if output == "text":
        _text(placements)
    else:
        click.echo(_structured([_row(each) for each in placements], output), nl=False)
    sys.exit(0 if all(placement.fits for placement in placements) else 1)


def load(
    paths: tuple[str, ...], policy: Policy, node: str, plugins: tuple[str, ...] = (), snapshot: Path | None = None
) -> Cluster:
    """The cluster in the files; leaves with status 2 where there is none to be had."""
    return load_manifests(paths, policy, node, plugins, snapshot)[0]


def load_manifests(
    paths: tuple[str, ...], policy: Policy, node: str, plugins: tuple[str, ...] = (), snapshot: Path | None = None
) -> tuple[Cluster, list[Manifest]]:
    """The cluster, and the manifests that it is made of."""
    reading = read(paths)
    problems = [str(problem) for problem in reading.problems]
    cluster = None
    base = _objects_of(snapshot) if snapshot is not None else {}
    if not problems:
        cluster = _read_cluster(reading.manifests, policy, node, plugins, base, problems)
    if cluster is None:
        for problem in problems:
            click.echo(one_line(problem), err=True)
        sys.exit(2)
    return cluster, reading.manifests


def _objects_of(snapshot: Path) -> dict[str, list[Object]]:
    import asyncio

    from dray.cli.cluster import snapshot_cluster
    from dray.snapshot.listing import listed

    return asyncio.run(listed(snapshot_cluster(snapshot).client)).objects


def _read_cluster(
    manifests: list[Manifest],
    policy: Policy,
    node: str,
    plugins: tuple[str, ...],
    base: Mapping[str, Sequence[Object]],
    problems: list[str],
) -> Cluster | None:
    try:
        cluster = read_cluster(manifests, policy, node, plugins, base)
    except Unusable as unusable:
        problems += map(str, unusable.problems)
        return None
    if node and not cluster.size:
        problems.append(f"error: node {node} not found; give a Node, or a ResourceSlice that names it")
        return None
    return cluster


def _text(placements: list[Placement]) -> None:
    for placement in placements:
        wanted = placement.wanted
        click.echo(f"{wanted.title}: {f'on node {placement.node}' if placement.fits else 'does not fit'}")
        for line in _devices(placement) if placement.fits else _refusals(placement):
            click.echo(f"  {one_line(line)}")
    fitting = sum(placement.fits for placement in placements)
    click.echo(f"{fitting} of {len(placements)} fit" if placements else "nothing to allocate")


def _devices(placement: Placement) -> Iterator[str]:
    wanted = placement.wanted
    resources = {each["requestName"]: each["resourceName"] for each in placement.mappings}
    for (_, name), allocation in placement.allocations.items():
        for result in allocation_results(allocation):
            label = result["request"] if wanted.kind == "claim" else f"{name}, {result['request']}"
            if name == wanted.special_name:
                label = resources.get(result["request"], label)
            yield f"{label}: {device(result)}"


def _refusals(placement: Placement) -> Iterator[str]:
    answers = placement.answers
    if answers is None:
        yield placement.wanted.missing
        return
    order = {rejection.node: number for number, rejection in enumerate(answers.rejections)}
    for group in sorted(alike(answers.rejections), key=lambda group: order[group[0].node]):
        yield f"{nodes_text([each.node for each in group])}: {summary(group[0])}"
    for names, details in answers.obstacles():
        yield f"{nodes_text(names)}: {'; '.join(details)}"
    if not answers.nodes:
        yield answers.conclusion()


def _row(placement: Placement) -> Object:
    wanted = placement.wanted
    row: Object = {"kind": wanted.kind, "namespace": wanted.namespace, "name": wanted.name, "fits": placement.fits}
    if not placement.fits:
        return {**row, "reasons": list(_reasons(placement))}
    row["node"] = placement.node
    if placement.allocations:
        row["claims"] = claim_rows(placement.allocations.items())
    if placement.mappings:
        row["claims"][-1]["requestMappings"] = list(placement.mappings)
    return row


def _reasons(placement: Placement) -> Iterator[Object]:
    answers = placement.answers
    if answers is None or not answers.nodes:
        yield {"reason": placement.wanted.missing if answers is None else answers.conclusion()}
        return
    for rejection in answers.rejections:
        yield {"node": rejection.node, "reason": summary(rejection)}
    for names, details in answers.obstacles():
        yield from ({"node": name, "reason": "; ".join(details)} for name in names)


def _structured(rows: list[Object], output: str) -> str:
    """Returns one YAML document for each claim or pod, or one JSON document for all."""
    if output == "yaml":
        from dray.yaml.writing import as_yaml

        return as_yaml(rows)
    return structured(rows, output)
