"""`dray apply`: server-side apply of manifests.

The server merges, defaults and checks; this finds out where each object belongs and says what came of it. Namespaces
and definitions of kinds go first, whatever the order of the files, since the others may need them. A refusal is shown
at the line of the file it is about, and the rest is applied all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import click

from dray.answers.manifests.reading import Manifest, Reading, read
from dray.answers.one_line import one_line
from dray.api.objects import Object
from dray.cli.cluster import Cluster, Where, ask, located
from dray.cli.rest_mapping import DEFINITION, FOUNDATIONS, Misplaced, Target, complain_about, locate
from dray.client.interface import PatchType, WriteOptions

FIELD_MANAGER: Final = "dray"
# How long a kind may take to be served after its definition was accepted.
_REGISTRATION: Final = 10.0


@click.command()
@click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    required=True,
    metavar="PATH",
    help="File or directory with manifests, or - for standard input; repeatable.",
)
@click.option("--server-side", is_flag=True, help="Accepted as kubectl does; dray always applies on the server.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that belong to other field managers.")
@click.option("--dry-run", is_flag=True, help="Let the server check everything, but store nothing.")
@located
def apply(
    files: tuple[str, ...],
    server_side: bool,
    force_conflicts: bool,
    dry_run: bool,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Create or update objects from files.

    PATH is a YAML or JSON file, a directory, or - for standard input. This is server-side apply with the field manager
    "dray": fields that you remove from a file are removed from the object, and fields that others set stay.

    \b
    Examples:
      dray apply -f examples/claims
      dray apply -f pod.yaml --dry-run
      dray convert old.yaml | dray apply -f -

    Exit status: 0 applied, 1 the server refused something, 2 a file cannot be read or the server cannot be reached.
    """
    options = WriteOptions(FIELD_MANAGER, "Strict", dry_run=dry_run, force=force_conflicts)
    reading = read(files)
    ask(Where(kubeconfig, context, namespace), lambda cluster: _apply_all(cluster, reading, options))


async def _apply_all(cluster: Cluster, reading: Reading, options: WriteOptions) -> int:
    for problem in reading.problems:
        click.echo(one_line(str(problem)), err=True)

    def say(manifest: Manifest, target: Target, outcome: str) -> None:
        click.echo(f"{target} {outcome}{' (server dry run)' if options.dry_run else ''}")

    refused = not await apply_manifests(cluster, reading.manifests, options, say)
    return 2 if reading.problems else 1 if refused else 0


async def apply_manifests(
    cluster: Cluster,
    manifests: Sequence[Manifest],
    options: WriteOptions,
    say: Callable[[Manifest, Target, str], Awaitable[None] | None],
) -> bool:
    """False if the server refused any, after a line about each. `say` is told of every other."""
    from dray.client.errors import ApiError

    refused = False
    defined = not options.dry_run and any(applied.kind == DEFINITION for applied in manifests)
    for manifest in sorted(manifests, key=lambda each: each.kind not in FOUNDATIONS):
        try:
            target = await locate(cluster, manifest, patience=_REGISTRATION if defined else 0)
            said = say(manifest, target, await _apply(cluster, target, manifest, options))
            if said is not None:
                await said
        # The last two: a text or a number that JSON cannot carry.
        except (ApiError, Misplaced, ValueError, OverflowError) as error:
            refused = True
            complain_about(manifest, error)
    return not refused


async def _apply(cluster: Cluster, target: Target, manifest: Manifest, options: WriteOptions) -> str:
    before = await _current(cluster, target)
    after = await cluster.client.patch(
        target.kind,
        target.name,
        manifest.document,
        namespace=target.namespace,
        patch_type=PatchType.APPLY,
        options=options,
    )
    if before is None:
        return "created"
    return "unchanged" if _comparable(before) == _comparable(after) else "configured"


async def _current(cluster: Cluster, target: Target) -> Object | None:
    from dray.client.errors import NotFound

    try:
        return await cluster.client.get(target.kind, target.name, namespace=target.namespace)
    except NotFound:
        return None


def _comparable(item: Object) -> Object:
    """A write that changes anything has a new version; one that is only tried has none, but other content."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}
