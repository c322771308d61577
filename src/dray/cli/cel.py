"""`dray cel`: one expression, checked and, given devices, evaluated, for people who debug a selector.

The devices are those of the ResourceSlices in a file or of a running cluster. What comes of each is an `Outcome`;
`_text` and `_json` print them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from dray.answers.manifests.reading import read
from dray.api.objects import Object, mapping, mappings, text, walk
from dray.api.quantity import Quantity
from dray.api.suggestions import did_you_mean
from dray.cel import COST_LIMIT, CompileError, CostLimitExceeded, Device, EvaluationError, Program, compile_derived
from dray.cel.selector import compile_device_expression
from dray.cel.values import Duration, Optional, Timestamp, TypeValue, Value, decode_key
from dray.cli.cluster import Cluster, Where, ask, located
from dray.cli.output_formats import output_option, structured


@dataclass(frozen=True, slots=True)
class Published:
    """A device and where it is published."""

    driver: str
    pool: str
    name: str
    device: Device

    @property
    def title(self) -> str:
        return f"{self.pool}/{self.name}" if self.pool else self.name

    def answers_to(self, name: str) -> bool:
        return name in (self.name, self.title, f"{self.driver}/{self.title}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an expression on one device: a value, or an error with its place."""

    of: Published
    value: str = ""
    error: str = ""
    cost: int | None = None
    excerpt: str = ""


@click.command()
@click.argument("expression")
@click.option(
    "--device",
    "path",
    metavar="FILE",
    help="Evaluate on the devices of the ResourceSlices in this file (or directory, or - for standard input).",
)
@click.option("--live", is_flag=True, help="Evaluate on the devices of a running cluster.")
@click.option("--name", help="Device to evaluate on: NAME, POOL/NAME or DRIVER/POOL/NAME. Default: all.")
@output_option("text", "json", "yaml")
@located
def cel(
    expression: str,
    path: str | None,
    live: bool,
    name: str | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Check a CEL EXPRESSION about `device`, and evaluate it.

    Prints the type and the worst-case cost. With --device or --live it also prints the value and the cost for each
    device, or the error. If the expression does not compile, a caret points at the place.

    \b
    Examples:
      dray cel 'device.driver == "gpu.nvidia.com"'
      dray cel 'device.attributes["gpu.nvidia.com"].type == "gpu"' --live
      dray cel 'device.driver == "gpu.nvidia.com"' --device examples/lab -o json

    Exit status: 0 it compiles, and evaluates on every device; 1 it does not; 2 a file cannot be read, the server
    cannot be reached, or there are no devices.
    """
    if live and path is not None:
        raise click.UsageError("give either --device or --live")
    try:
        program = compile_device_expression(expression)
    except CompileError as error:
        _show_error(error, output)
        sys.exit(1)
    show: Show = _text if output == "text" else partial(_structured, output=output)
    if live:
        ask(Where(kubeconfig, context, namespace), lambda cluster: _evaluate_live(cluster, program, name, show))
    if path is None:
        show(program, None)
        return
    sys.exit(_evaluate(program, _in_files(path), name, path, show))


Show = Callable[[Program, "list[Outcome] | None"], None]


async def _evaluate_live(cluster: Cluster, program: Program, name: str | None, show: Show) -> int:
    from dray.client.discovery import served_version

    resource = await served_version(cluster.client, "resource.k8s.io", "resourceslices")
    if resource is None:
        raise click.ClickException("the server serves no ResourceSlices")
    slices = (await cluster.client.list_all(resource)).get("items") or []
    return _evaluate(program, slices, name, "the cluster", show)


def _in_files(path: str) -> list[Object]:
    reading = read([path])
    for problem in reading.problems:
        click.echo(f"error: {problem}", err=True)
    if reading.problems:
        sys.exit(2)
    return [manifest.document for manifest in reading.manifests if manifest.kind == "ResourceSlice"]


def _evaluate(program: Program, slices: Iterable[Object], name: str | None, source: str, show: Show) -> int:
    devices = [each for each in _published(slices) if name is None or each.answers_to(name)]
    if not devices:
        click.echo(f"error: {source} has no device{f' {name!r}' if name else ''} in a ResourceSlice", err=True)
        return 2
    outcomes = [_outcome(program, each) for each in devices]
    show(program, outcomes)
    return 1 if any(each.error for each in outcomes) else 0


def _published(slices: Iterable[Object]) -> Iterator[Published]:
    for document in slices:
        spec = mapping(document.get("spec"))
        driver, pool = str(spec.get("driver", "")), text(walk(spec, "pool").get("name"))
        for entry in mappings(spec.get("devices")):
            # In v1beta1 a device's properties stand under `basic`.
            basic = entry.get("basic")
            device = Device(driver, basic if isinstance(basic, dict) else entry)
            yield Published(driver, pool, str(entry.get("name", "")), device)


def _outcome(program: Program, of: Published) -> Outcome:
    try:
        value, cost = program.evaluate(of.device)
    except CostLimitExceeded as error:
        return Outcome(of, error=str(error))
    except EvaluationError as error:
        offset = None if of.device.problem else program.locate(of.device)
        excerpt = CompileError("", text=program.expression, offset=offset).excerpt() if offset is not None else ""
        return Outcome(of, error=f"{error}{_advice(error, of.device)}", cost=error.cost, excerpt=excerpt)
    return Outcome(of, value=show(value), cost=cost)


def _worst_case(program: Program) -> str:
    if program.estimated_cost <= COST_LIMIT:
        return f"{program.estimated_cost:,} of {COST_LIMIT:,}"
    return f"more than {COST_LIMIT:,}: an API server refuses it"


def _note(program: Program) -> str:
    """A selector must yield bool, a derived attribute a scalar; what there is to say when this is neither."""
    if program.result_type.kind == "bool" or program.result_type.dynamic:
        return ""
    try:
        compile_derived(program.expression)
        return "not a selector, which must yield bool; may be a derived attribute"
    except CompileError:
        return "neither a selector, which must yield bool, nor a derived attribute, which yields a scalar"


def _show_error(error: CompileError, output: str) -> None:
    if output == "text":
        click.echo(error.render(), err=True)
        return
    row = {"compiles": False, "error": error.message, "line": error.line, "column": error.column}
    click.echo(structured(row, output), nl=False)


def _text(program: Program, outcomes: list[Outcome] | None) -> None:
    click.echo(f"type: {program.result_type}")
    click.echo(f"worst-case cost: {_worst_case(program)}")
    if note := _note(program):
        click.echo(f"note: {note}")
    for each in outcomes or ():
        cost = "" if each.cost is None else f" (cost {each.cost:,})"
        click.echo(f"{each.of.title}: {f'error: {each.error}' if each.error else each.value}{cost}")
        if each.excerpt:
            click.echo(each.excerpt)


def _structured(program: Program, outcomes: list[Outcome] | None, output: str) -> None:
    row: Object = {
        "compiles": True,
        "type": str(program.result_type),
        "worstCaseCost": program.estimated_cost,
        "costLimit": COST_LIMIT,
        "note": _note(program),
    }
    if outcomes is not None:
        row["devices"] = [_row(each) for each in outcomes]
    click.echo(structured(row, output), nl=False)


def _row(outcome: Outcome) -> Object:
    of = outcome.of
    what = {"error": outcome.error} if outcome.error else {"value": outcome.value}
    return {"driver": of.driver, "pool": of.pool, "device": of.name, **what, "cost": outcome.cost}


def _advice(error: EvaluationError, device: Device) -> str:
    _, found, key = str(error).partition("no such key: ")
    if not found:
        return ""
    known = [name for part in (device.attributes, device.capacity) for names in part.values() for name in names]
    if key not in known and (question := did_you_mean(key, known)):
        return f"; {question}"
    return "; use .?name with orValue(), or guard with has(), for attributes that a device may lack"


def show(value: Value) -> str:
    """A value as one would write it in CEL."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return "[" + ", ".join(show(element) for element in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(decode_key(key))}: {show(entry)}" for key, entry in value.items()) + "}"
    return _show_other(value)


def _show_other(value: Any) -> str:
    if isinstance(value, Quantity):
        return f'quantity("{value}")'
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Duration | Timestamp | Optional):
        return repr(value)
    return str(value)
