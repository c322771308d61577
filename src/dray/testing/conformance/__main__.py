"""The command: reads corpora, asks, prints a table by group, the cases that differ, and the count last."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from dray.testing.conformance.corpus import Case, CorpusError, Outcome, read

# Loaded when asked for: a mode pays only for the rooms it visits.
MODES = {
    "allocation": "dray.testing.conformance.allocation:run",
    "api": "dray.testing.conformance.api:run",
    "cel": "dray.testing.conformance.cel:run",
    "cel-spec": "dray.testing.conformance.cel:run_spec",
    "flows": "dray.testing.conformance.flows:run",
    "hard": "dray.testing.conformance.allocation:run_hard",
}
# Modes that can ask a server at a URL.
REMOTE = {
    "api": "dray.testing.conformance.api:over_http",
    "flows": "dray.testing.conformance.flows:over_http",
}


def remote(mode: str, url: str, token: str) -> Callable[[Case], Outcome]:
    if mode not in REMOTE:
        raise click.UsageError(f"--url goes with {' and '.join(sorted(REMOTE))}")
    module, _, name = REMOTE[mode].partition(":")
    found: Callable[[Case], Outcome] = getattr(importlib.import_module(module), name)(url, token)
    return found


def runner(mode: str) -> Callable[[Case], Outcome]:
    module, _, name = MODES[mode].partition(":")
    found: Callable[[Case], Outcome] = getattr(importlib.import_module(module), name)
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("mode", type=click.Choice(sorted(MODES)))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--most", default=100, show_default=True, help="Show at most this many cases that differ.")
@click.option("--url", default="", help="Ask the API server at this URL (api and flows).")
@click.option("--token", default="", help="Show this bearer token to the server.")
def main(mode: str, files: tuple[Path, ...], most: int, url: str, token: str) -> None:
    """Ask dray what Kubernetes was asked, and compare the answers."""
    outcomes: list[Outcome] = []
    ask = remote(mode, url, token) if url else runner(mode)
    try:
        for path in files:
            outcomes.extend(map(ask, read(path)))
    except CorpusError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    report(outcomes, most)
    sys.exit(1 if any(outcome.difference and not outcome.waiting for outcome in outcomes) else 0)


def report(outcomes: list[Outcome], most: int) -> None:
    states = {state: Counter[str]() for state in ("passed", "failed", "waiting")}
    for outcome in outcomes:
        states[_state(outcome)][outcome.group] += 1
    width = max((len(outcome.group) for outcome in outcomes), default=5)
    click.echo(f"{'group':<{width}}  {'passed':>6}  {'failed':>6}  {'waiting':>7}")
    for group in sorted({outcome.group for outcome in outcomes}):
        counts = (states[state][group] for state in ("passed", "failed", "waiting"))
        click.echo("{:<{}}  {:>6}  {:>6}  {:>7}".format(group, width, *counts))
    for title, state in (("Different", "failed"), ("Waiting", "waiting")):
        shown = [outcome for outcome in outcomes if _state(outcome) == state]
        if shown:
            click.echo(f"\n{title}:")
        for outcome in shown[:most]:
            click.echo(f"  {outcome.name}\n      {outcome.difference}")
        if len(shown) > most:
            click.echo(f"  … and {len(shown) - most} more (--most)")
    waiting = states["waiting"].total()
    if waiting:
        click.echo(f"\n{waiting} waiting")
    click.echo(f"\n{states['passed'].total()} passed, {states['failed'].total()} failed")


def _state(outcome: Outcome) -> str:
    if outcome.waiting:
        return "waiting"
    return "failed" if outcome.difference else "passed"


if __name__ == "__main__":
    main()
