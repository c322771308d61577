"""The command of the conformance runner: prints a table by group, the cases that differ, and the count last."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from dray.testing.conformance.corpus import Case, CorpusError, Outcome, read, read_known, with_known

# Modules are imported on use, so that a mode loads only what it needs.
MODES = {
    "allocation": "dray.testing.conformance.allocation:run",
    "api": "dray.testing.conformance.api:run",
    "cel": "dray.testing.conformance.cel:run",
    "cel-spec": "dray.testing.conformance.cel:run_spec",
    "cluster": "dray.testing.conformance.cluster:play_here",
    "flows": "dray.testing.conformance.flows:run",
    "groups": "dray.testing.conformance.groups.runner:run",
    "hard": "dray.testing.conformance.allocation:run_hard",
}
# Modes that can test a server at a URL.
REMOTE = {
    "api": "dray.testing.conformance.api:over_http",
    "cluster": "dray.testing.conformance.cluster:play_there",
    "flows": "dray.testing.conformance.flows:over_http",
}


def asked(mode: str, cases: Iterable[Case], url: str, token: str, scheduler: str) -> list[Outcome]:
    """Runs the cases in this process, or against the server at the URL. Returns the outcomes."""
    if url and mode not in REMOTE:
        raise click.UsageError(f"--url goes with {', '.join(sorted(REMOTE))}")
    module, _, name = (REMOTE if url else MODES)[mode].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    if mode == "cluster":
        # Stories mostly wait, so several are played at once where possible.
        outcomes: list[Outcome] = found(cases, *((url, token) if url else ()), scheduler=scheduler)
        return outcomes
    return list(map(found(url, token) if url else found, cases))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("mode", type=click.Choice(sorted(MODES)))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--most", default=100, show_default=True, help="Show at most this many cases that differ.")
@click.option("--url", default="", help="Ask the API server at this URL (api, cluster and flows).")
@click.option("--token", default="", help="Show this bearer token to the server.")
@click.option("--only", default="", metavar="WORD", help="Ask only the cases with this in their name.")
@click.option(
    "--scheduler",
    default="default-scheduler",
    show_default=True,
    metavar="NAME",
    help="The scheduler that pods name (cluster).",
)
@click.option(
    "--known",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file with the cases that are known to differ and the reason of each. Such a case fails if it passes.",
)
@click.option("--remarks", is_flag=True, help="Print also the cases that passed in another way (groups).")
def main(
    mode: str,
    files: tuple[Path, ...],
    most: int,
    url: str,
    token: str,
    only: str,
    scheduler: str,
    known: Path | None,
    remarks: bool,
) -> None:
    """Ask dray what Kubernetes was asked, and compare the answers."""
    cases = (case for path in files for case in read(path) if only in case["name"])
    try:
        expected = read_known(known) if known is not None else {}
        outcomes = [with_known(outcome, expected) for outcome in asked(mode, cases, url, token, scheduler)]
    except CorpusError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    report(outcomes, most, remarks=remarks)
    sys.exit(1 if any(outcome.state == "failed" for outcome in outcomes) else 0)


def report(outcomes: list[Outcome], most: int, *, remarks: bool = False) -> None:
    states = {state: Counter[str]() for state in ("passed", "failed", "waiting", "known")}
    for outcome in outcomes:
        states[outcome.state][outcome.group] += 1
    width = max((len(outcome.group) for outcome in outcomes), default=5)
    click.echo(f"{'group':<{width}}  {'passed':>6}  {'failed':>6}  {'waiting':>7}")
    for group in sorted({outcome.group for outcome in outcomes}):
        counts = (states[state][group] for state in ("passed", "failed", "waiting"))
        click.echo("{:<{}}  {:>6}  {:>6}  {:>7}".format(group, width, *counts))
    reviewed = [outcome for outcome in outcomes if outcome.difference and outcome.reviewed]
    otherwise = [outcome for outcome in outcomes if outcome.difference is None and outcome.remark]
    for title, state in (("Different", "failed"), ("Waiting", "waiting")):
        _list(title, [(found.name, found.difference or "") for found in outcomes if found.state == state], most)
    known = [(outcome.name, outcome.known) for outcome in outcomes if outcome.state == "known"]
    _list("Different for a known reason", known, most)
    _list("Different for a reviewed reason, passed", [(found.name, found.reviewed) for found in reviewed], most)
    if remarks:
        _list("Passed in another way", [(found.name, found.remark) for found in otherwise], most)
    for count, what in (
        (states["waiting"].total(), "waiting"),
        (states["known"].total(), "known differences"),
        (len(reviewed), "passed with a reviewed difference"),
        (len(otherwise), "passed in another way (--remarks)"),
    ):
        if count:
            click.echo(f"\n{count} {what}")
    click.echo(f"\n{states['passed'].total()} passed, {states['failed'].total()} failed")


def _list(title: str, shown: list[tuple[str, str]], most: int) -> None:
    if shown:
        click.echo(f"\n{title}:")
    for name, text in shown[:most]:
        click.echo(f"  {name}\n      {text}")
    if len(shown) > most:
        click.echo(f"  … and {len(shown) - most} more (--most)")


if __name__ == "__main__":
    main()
