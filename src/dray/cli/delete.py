"""`dray delete`: takes objects away and waits until they are gone.

All are told to go first, and then waited for, since some go only with others. What others need goes last. An object
that stays is named with the finalizers that hold it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from dray.answers.manifests.reading import Manifest, Reading, read
from dray.answers.one_line import one_line
from dray.api.objects import Object, spec_of
from dray.cli.cluster import Cluster, Where, ask, complain, located
from dray.cli.durations import seconds
from dray.cli.resource_names import wanted
from dray.cli.rest_mapping import FOUNDATIONS, Misplaced, Target, UnknownKind, complain_about, locate
from dray.client.interface import DeleteOptions

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Lingering:
    """An object that was told to go and is still there."""

    target: Target
    uid: str


@click.command()
@click.argument("arguments", nargs=-1, metavar="[TYPE NAME... | TYPE/NAME...]")
@click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    metavar="PATH",
    help="File or directory that names the objects, or -; repeatable.",
)
@click.option(
    "--grace-period",
    type=click.IntRange(min=0),
    metavar="SECONDS",
    help="Seconds that pods have to end; 0 deletes them at once.",
)
@click.option("--ignore-not-found", is_flag=True, help="Treat objects that do not exist as deleted.")
@click.option("--dry-run", is_flag=True, help="Let the server check everything, but delete nothing.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when all objects are gone.")
@click.option(
    "--timeout", default="0s", callback=seconds, metavar="DURATION", help="Longest time to wait; 0 for no limit."
)
@located
def delete(
    arguments: tuple[str, ...],
    files: tuple[str, ...],
    grace_period: int | None,
    ignore_not_found: bool,
    dry_run: bool,
    wait: bool,
    timeout: float,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Delete objects by name, or the objects in files.

    TYPE works as in `dray get`, PATH as in `dray apply`.

    \b
    Examples:
      dray delete pod training
      dray delete pod/a claim/b --no-wait
      dray delete -f examples/claims --ignore-not-found

    Exit status: 0 deleted, 1 the server refused, the object does not exist, or it still exists after the timeout, 2 a
    file cannot be read or the server cannot be reached.
    """
    things = wanted(arguments)
    if bool(things) == bool(files) or any(not names for _, names in things):
        raise click.UsageError("give TYPE NAME..., TYPE/NAME..., or files with -f")
    reading = read(files)
    for problem in reading.problems:
        click.echo(one_line(str(problem)), err=True)
    options = DeleteOptions(grace_period=grace_period, propagation="Background", dry_run=dry_run)

    async def delete_all(cluster: Cluster) -> int:
        deletion = Deletion(cluster, options, ignore_missing=ignore_not_found)
        await deletion.delete_named(things)
        await deletion.delete_manifests(reading)
        if wait and not dry_run:
            await deletion.wait(timeout or None)
        return 2 if reading.problems else 1 if deletion.failed else 0

    ask(Where(kubeconfig, context, namespace), delete_all)


class Deletion:
    def __init__(self, cluster: Cluster, options: DeleteOptions, *, ignore_missing: bool) -> None:
        self._cluster = cluster
        self._options = options
        self._ignore_missing = ignore_missing
        self._lingering: list[Lingering] = []
        self.failed = False

    async def delete_named(self, things: list[tuple[str, list[str]]]) -> None:
        for types, names in things:
            for kind in await self._cluster.kinds(types):
                for name in names:
                    await self._delete(Target(kind, self._cluster.place(kind), name), complain)

    async def delete_manifests(self, reading: Reading) -> None:
        for manifest in sorted(reading.manifests, key=lambda each: each.kind in FOUNDATIONS):
            await self._delete_manifest(manifest)

    async def _delete_manifest(self, manifest: Manifest) -> None:
        try:
            target = await locate(self._cluster, manifest)
        except Misplaced as error:
            if not (self._ignore_missing and isinstance(error, UnknownKind)):
                self.failed = True
                complain_about(manifest, error)
            return
        await self._delete(target, lambda error: complain_about(manifest, error))

    async def _delete(self, target: Target, refused: Callable[[Any], None]) -> None:
        from dray.client.errors import ApiError, NotFound

        try:
            answer = await self._cluster.client.delete(
                target.kind, target.name, namespace=target.namespace, options=self._options
            )
        except ApiError as error:
            if not (isinstance(error, NotFound) and self._ignore_missing):
                self.failed = True
                refused(error)
            return
        tried = " (server dry run)" if self._options.dry_run else ""
        click.echo(_sentence(target, "force deleted" if self._options.grace_period == 0 else "deleted") + tried)
        if answer.get("kind") != "Status":
            self._lingering.append(Lingering(target, answer["metadata"].get("uid", "")))

    async def wait(self, timeout: float | None) -> None:
        """Waits until all objects are gone or the timeout is over; prints those that remain."""
        left = {lingering: asyncio.create_task(self._gone(lingering)) for lingering in self._lingering}
        if not left:
            return
        done, _ = await asyncio.wait(left.values(), timeout=timeout)
        for each, task in left.items():
            if task in done:
                self._report(task.exception())
                continue
            task.cancel()
            if found := await self._remains(each):
                self.failed = True
                click.echo(f"error: {each.target} still exists after {timeout:g}s{_held(found)}", err=True)

    def _report(self, error: BaseException | None) -> None:
        """Prints an API error, such as missing rights to read the object; raises other errors."""
        from dray.client.errors import ApiError

        if isinstance(error, ApiError):
            self.failed = True
            complain(error)
        elif error is not None:
            raise error

    async def _gone(self, each: Lingering) -> None:
        pause = _FIRST_PAUSE
        while await self._remains(each) is not None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _remains(self, each: Lingering) -> Object | None:
        """The object, unless it is gone or another one has taken its name."""
        from dray.client.errors import NotFound

        try:
            found = await self._cluster.client.get(each.target.kind, each.target.name, namespace=each.target.namespace)
        except NotFound:
            return None
        return found if found["metadata"].get("uid") == each.uid else None


def _held(found: Object) -> str:
    """Namespaces keep the finalizers that matter in their spec."""
    holding = found["metadata"].get("finalizers") or spec_of(found).get("finalizers") or ()
    return one_line(f", held by the finalizers {', '.join(map(str, holding))}") if holding else ""


def _sentence(target: Target, deleted: str) -> str:
    where = f" from {target.namespace} namespace" if target.namespace else ""
    return f'{target.kind.title} "{target.name}" {deleted}{where}'
