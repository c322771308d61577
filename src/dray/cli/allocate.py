"""`dray allocate`: which devices the claims and pods of some manifests would get, or why not. No server needed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from dray.allocation import POLICIES
from dray.answers.allocate import listed_objects, place_all
from dray.answers.errors import InvalidInput
from dray.answers.explaining.placement import read_cluster
from dray.answers.manifests.reading import read
from dray.answers.one_line import one_line
from dray.api.objects import Object
from dray.cli.cluster import snapshot_cluster, snapshot_option
from dray.cli.output_formats import output_option, structured
from dray.cli.plugins import plugin_option
from dray.cli.policies import policy_option
from dray.cli.warnings import warn

T = TypeVar("T")


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
    base = snapshot_objects(snapshot) if snapshot is not None else {}
    answer = asked(lambda: place_all(read_cluster(read(paths), POLICIES[policy], node, plugins, base, warn)))
    for note in answer.notes:
        click.echo(one_line(f"note: {note}"), err=True)
    click.echo(answer.text if output == "text" else _structured(answer.document, output), nl=False)
    sys.exit(0 if answer.fits else 1)


def snapshot_objects(snapshot: Path) -> dict[str, list[Object]]:
    """Returns the objects of a snapshot; leaves with status 2 if the file cannot be read."""
    return asyncio.run(listed_objects(snapshot_cluster(snapshot)))


def asked(question: Callable[[], T]) -> T:
    """Returns the answer; leaves with status 2 if the question is wrong, after a line for each problem."""
    try:
        return question()
    except InvalidInput as error:
        for problem in error.problems:
            click.echo(one_line(problem), err=True)
        sys.exit(2)


def _structured(rows: list[Object], output: str) -> str:
    """Returns one YAML document for each claim or pod, or one JSON document for all."""
    if output == "yaml":
        from dray.yaml.writing import as_yaml

        return as_yaml(rows)
    return structured(rows, output)
