"""`dray cel`: one expression, checked and, given a device, evaluated, for people who debug a selector."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from dray.api.quantity import Quantity
from dray.cel import COST_LIMIT, CompileError, CostLimitExceeded, Device, EvaluationError, Program, compile_derived
from dray.cel.selector import compile_device_expression
from dray.cel.values import Duration, Optional, Timestamp, TypeValue, Value, decode_key
from dray.cli.manifests import Manifest, read


@click.command()
@click.argument("expression")
@click.option(
    "--device",
    "path",
    metavar="FILE",
    help="Evaluate on the devices of the ResourceSlices in this file (or directory, or - for standard input).",
)
@click.option("--name", help="Of those devices, only the one with this name.")
def cel(expression: str, path: str | None, name: str | None) -> None:
    """Check a CEL EXPRESSION over `device` and evaluate it.

    Says the type and the worst-case cost, and for each device the value with its cost, or the error. An expression
    that does not compile is shown with a caret under the place.
    """
    try:
        program = compile_device_expression(expression)
    except CompileError as error:
        click.echo(error.render(), err=True)
        sys.exit(1)
    click.echo(f"type: {program.result_type}")
    click.echo(f"worst-case cost: {_worst_case(program)}")
    _warn(program)
    if path is not None:
        sys.exit(_evaluate_all(program, path, name))


def _worst_case(program: Program) -> str:
    if program.estimated_cost <= COST_LIMIT:
        return f"{program.estimated_cost:,} of {COST_LIMIT:,}"
    return f"more than {COST_LIMIT:,}: an API server refuses it"


def _warn(program: Program) -> None:
    """A selector must yield bool, a derived attribute a scalar; say so when this is neither."""
    if program.result_type.kind == "bool" or program.result_type.dynamic:
        return
    try:
        compile_derived(program.expression)
        click.echo("note: not a selector, which must yield bool; may be a derived attribute")
    except CompileError:
        click.echo("note: neither a selector, which must yield bool, nor a derived attribute, which yields a scalar")


def _evaluate_all(program: Program, path: str, name: str | None) -> int:
    reading = read([path])
    for problem in reading.problems:
        click.echo(f"error: {problem}", err=True)
    if reading.problems:
        return 2
    devices = [(title, device) for title, device in _devices(reading.manifests) if name in (None, title)]
    if not devices:
        click.echo(f"error: {path} has no device{f' {name!r}' if name else ''} in a ResourceSlice", err=True)
        return 2
    return max([_evaluate(program, title, device) for title, device in devices])


def _devices(manifests: list[Manifest]) -> Iterator[tuple[str, Device]]:
    for manifest in manifests:
        spec = manifest.document.get("spec")
        if manifest.kind != "ResourceSlice" or not isinstance(spec, dict):
            continue
        for entry in spec.get("devices") or []:
            if isinstance(entry, dict):
                # In v1beta1 a device's properties stand under `basic`.
                basic = entry.get("basic")
                device = Device(str(spec.get("driver", "")), basic if isinstance(basic, dict) else entry)
                yield str(entry.get("name", "")), device


def _evaluate(program: Program, title: str, device: Device) -> int:
    try:
        value, cost = program.evaluate(device)
    except CostLimitExceeded as error:
        click.echo(f"{title}: error: {error}")
        return 1
    except EvaluationError as error:
        cost_text = "" if error.cost is None else f" (cost {error.cost:,})"
        click.echo(f"{title}: error: {error}{_advice(error)}{cost_text}")
        offset = None if device.problem else program.locate(device)
        if offset is not None:
            click.echo(CompileError("", text=program.expression, offset=offset).excerpt())
        return 1
    click.echo(f"{title}: {show(value)} (cost {cost:,})")
    return 0


def _advice(error: EvaluationError) -> str:
    if "no such key" not in str(error):
        return ""
    return "; use .?name with orValue(), or guard with has(), for what a device may lack"


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
