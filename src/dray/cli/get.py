"""`dray get`: what a server has, as kubectl shows it.

Tables are the server's: it is asked for them, and `Layout` sets them. What is fetched is kept apart from what is
refused, so that the rest is shown when one name is wrong. A watch starts where the list ended.
"""

from __future__ import annotations

import sys
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from dray.answers.views.layout import Layout
from dray.api.objects import Object, metadata_of
from dray.cli.cluster import TABLE, Cluster, Where, ask, complain, located
from dray.cli.output_formats import output_option, structured
from dray.cli.resource_names import wanted
from dray.client.interface import Selection

if TYPE_CHECKING:
    from dray.client.discovery import ServedResource
    from dray.client.errors import ApiError


_TABLES: Final = ("table", "wide")
_OUTPUTS: Final = (*_TABLES, "json", "yaml", "name")
_PAGE: Final = 500


class View(NamedTuple):
    """Options of `dray get`: which objects to show, and how."""

    everywhere: bool
    labels: str
    output: str

    @property
    def tabular(self) -> bool:
        return self.output in _TABLES

    def place(self, cluster: Cluster, kind: ServedResource) -> str:
        return "" if self.everywhere else cluster.place(kind)

    def selection(self, names: list[str]) -> Selection:
        return Selection(self.labels, f"metadata.name={names[0]}" if names else "")

    def layout(self, kind: ServedResource, *, titled: bool = False) -> Layout:
        namespaces = self.everywhere and kind.namespaced
        return Layout(wide=self.output == "wide", namespaces=namespaces, title=kind.title if titled else "")


@dataclass(slots=True)
class Fetched:
    """Result for one kind: tables or objects, and refusals."""

    kind: ServedResource
    resource_version: str = ""
    documents: list[Object] = field(default_factory=list)
    refusals: list[ApiError] = field(default_factory=list)


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="TYPE[/NAME] [NAME...]")
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="List objects of all namespaces.")
@click.option("--selector", "-l", "labels", default="", metavar="SELECTOR", help="List objects with these labels only.")
@output_option(*_OUTPUTS)
@click.option("--watch", "-w", "watching", is_flag=True, help="Print changes too, until interrupted.")
@located
def get(
    arguments: tuple[str, ...],
    everywhere: bool,
    labels: str,
    output: str,
    watching: bool,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """List objects, or print them as YAML or JSON.

    -o wide shows all columns. -o jsonpath=TEMPLATE prints parts of the objects, with a template as kubectl has it.

    TYPE is a plural, singular, short or kind name, or TYPE.GROUP or TYPE.VERSION.GROUP. Separate several types with
    commas.

    \b
    Examples:
      dray get pods -A
      dray get nodes,resourceslices
      dray get pods -o wide
      dray get pod/training -o yaml
      dray get pods -o jsonpath='{range .items[*]}{.metadata.name} {.spec.nodeName}{"\\n"}{end}'
      dray get pods -l app=train --watch

    Exit status: 0 printed, 1 the server refused or the object does not exist, 2 the server cannot be reached.
    """
    things = wanted(arguments)
    named = sum(len(names) for _, names in things)
    if named and (everywhere or labels):
        raise click.UsageError("give names, or choose with -A and -l, not both")
    if watching and max(len(things), named) > 1:
        raise click.UsageError("only one object, or the objects of one type, can be watched at a time")
    view = View(everywhere, labels, output)
    try:
        ask(Where(kubeconfig, context, namespace), lambda cluster: _get(cluster, things, view, watching))
    except KeyboardInterrupt:
        # The one way for a watch to end.
        sys.exit(0 if watching else 130)


async def _get(cluster: Cluster, things: list[tuple[str, list[str]]], view: View, watching: bool) -> int:
    chosen = [(kind, names) for types, names in things for kind in await cluster.kinds(types)]
    if watching:
        if len(chosen) > 1:
            raise click.UsageError("only the objects of one type can be watched at a time")
        return await _watch(cluster, *chosen[0], view)
    fetched = [await _fetch(cluster, kind, names, view) for kind, names in chosen]
    refusals = [refusal for result in fetched for refusal in result.refusals]
    single = sum(len(names) for _, names in chosen) == 1
    if view.tabular:
        _print_tables(fetched, view)
    elif not (refusals and single):
        _print_objects([item for result in fetched for item in result.documents], view.output, single=single)
    if view.tabular and not refusals and not any(table.get("rows") for result in fetched for table in result.documents):
        inside = any(view.place(cluster, result.kind) for result in fetched)
        click.echo(f"No resources found{f' in {cluster.namespace} namespace.' if inside else ''}", err=True)
    for refusal in refusals:
        complain(refusal)
    return 1 if refusals else 0


async def _fetch(cluster: Cluster, kind: ServedResource, names: list[str], view: View) -> Fetched:
    from dray.client.errors import ApiError

    client = cluster.speaking(TABLE if view.tabular else "")
    place, fetched = view.place(cluster, kind), Fetched(kind)
    for name in names:
        try:
            found = await client.get(kind, name, namespace=place)
        except ApiError as error:
            fetched.refusals.append(error)
            continue
        fetched.documents.append(found if view.tabular else presented(found, kind))
        fetched.resource_version = found["metadata"].get("resourceVersion", "")
    token = ""
    while not names:
        page = await client.list(
            kind, namespace=place, selection=view.selection(names), limit=_PAGE, continue_token=token
        )
        fetched.documents += [page] if view.tabular else [presented(item, kind) for item in page.get("items") or ()]
        fetched.resource_version = page["metadata"].get("resourceVersion", "")
        token = page["metadata"].get("continue", "")
        if not token:
            break
    return fetched


def presented(item: Object, kind: ServedResource) -> Object:
    """Adds apiVersion and kind, which lists leave out, and removes managedFields."""
    metadata = {key: value for key, value in metadata_of(item).items() if key != "managedFields"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **item, "metadata": metadata}


def _print_tables(fetched: list[Fetched], view: View) -> None:
    """Below each other, with a line between."""
    titled = sum(bool(result.documents) for result in fetched) > 1
    blocks = [view.layout(result.kind, titled=titled).lines(result.documents) for result in fetched]
    texts = ["\n".join(block) + "\n" for block in blocks if block]
    click.echo("\n".join(texts), nl=False)


def _print_objects(objects: list[Object], output: str, *, single: bool) -> None:
    if output == "name":
        for item in objects:
            click.echo(_name(item))
        return
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects}
    click.echo(structured(objects[0] if single else listed, output), nl=False)


def _name(item: Object) -> str:
    group, slash, _ = item["apiVersion"].partition("/")
    kind = f"{item['kind']}.{group}" if slash else item["kind"]
    return f"{kind.lower()}/{item['metadata']['name']}"


async def _watch(cluster: Cluster, kind: ServedResource, names: list[str], view: View) -> int:
    fetched, layout = await _fetch(cluster, kind, names, view), view.layout(kind)
    for refusal in fetched.refusals:
        complain(refusal)
        return 1

    def show(document: Object) -> None:
        if view.tabular:
            for line in layout.lines([document]):
                click.echo(line)
            return
        if view.output == "yaml":
            click.echo("---")
        _print_objects([document], view.output, single=True)

    for document in fetched.documents:
        show(document)
    events = cluster.speaking(TABLE if view.tabular else "").watch(
        kind,
        namespace=view.place(cluster, kind),
        selection=view.selection(names),
        resource_version=fetched.resource_version,
    )
    async with aclosing(events) as changes:
        async for event in changes:
            if event.type != "BOOKMARK":
                show(event.object if view.tabular else presented(event.object, kind))
    return 0
