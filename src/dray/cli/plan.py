"""`dray plan`: where pods would go, who would be affected, and what would help, before anything is submitted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from dray.answers.cluster import chosen_machines
from dray.answers.errors import InvalidInput
from dray.answers.plan import Base, Question, cluster_base, fleet_base, plan_reading
from dray.cli.cluster import Cluster, Where, ask, located, snapshot_option
from dray.cli.output_formats import output_option, structured
from dray.cli.policies import policy_option

T = TypeVar("T")
_STATUSES: Final = {"Fits": 0, "DoesNotFit": 1, "FitsWithChange": 3}


@click.command()
@click.option(
    "--filename",
    "-f",
    "paths",
    multiple=True,
    metavar="PATH",
    help="Manifests to plan: file, directory or -; repeatable.",
)
@snapshot_option
@click.option(
    "--fleet", multiple=True, metavar="TYPE=N,...|FILE", help="Plan for these machines without pods, not for a cluster."
)
@click.option("--add", multiple=True, metavar="NxTYPE", help="Machines to add, as in 4xp5.48xlarge; repeatable.")
@click.option("--drain", multiple=True, metavar="NODE", help="Node whose pods have to leave; repeatable.")
@click.option("--without", multiple=True, metavar="DEVICE", help="Device that is gone, as in NODE/gpu-0; repeatable.")
@click.option(
    "--quota", multiple=True, metavar="QUEUE=RESOURCE:N", help="Other quota of a queue; +N adds to it. Repeatable."
)
@click.option("--price", "prices", multiple=True, metavar="TYPE=N", help="Price of a machine for an hour; repeatable.")
@click.option(
    "--seconds", default=10.0, show_default=True, metavar="N", help="Search for changes that help this long (0: not)."
)
@policy_option
@output_option("text", "json", "yaml")
@located
def plan(
    fleet: tuple[str, ...],
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    paths: tuple[str, ...],
    output: str,
    prices: tuple[str, ...],
    **asked: object,
) -> None:
    """Show where pods would go and who would be affected, before anything is submitted.

    The scheduler runs in this process on a copy of the cluster's objects, or of a snapshot. Nothing is written to the
    cluster. For each pod the plan has the node and devices, or why it waits, its place in the queue and its expected
    start; the pods that are evicted for it; and what an hour costs. If something does not fit, single changes are
    tried: what the manifests could do without, fewer devices or pods, another queue, more quota, more machines.

    --add, --drain, --without and --quota change the cluster first. Without -f they plan maintenance: the pods of a
    drained node, or of a device that fails, move to other nodes.

    \b
    Examples:
      dray plan -f job.yaml
      dray plan -f job.yaml --snapshot monday.snapshot --add 4xp5.48xlarge
      dray plan -f job.yaml --fleet p5.48xlarge=2
      dray plan --drain gpu-node-7
      dray plan -f job.yaml --quota team-a=gpu.nvidia.com:+8 -o json

    Exit status: 0 it fits, 1 it does not fit, 2 a file or an option is wrong or the server cannot be reached, 3 it does
    not fit, but a change that helps was found.
    """
    question = Question(**asked, prices=_prices(prices))  # type: ignore[arg-type]
    where = Where(kubeconfig, context, namespace, snapshot)
    if fleet:
        if where.snapshot or where.kubeconfig or where.context:
            raise click.UsageError("--fleet plans without a cluster: leave --snapshot, --kubeconfig and --context out")
        base = _asked(lambda: fleet_base(chosen_machines(fleet), namespace))
        sys.exit(_answer(question, paths, base, output))
    bases: list[Base] = []

    async def work(cluster: Cluster) -> int:
        from dray.client.errors import ApiError

        try:
            bases.append(await cluster_base(cluster))
        except ApiError as error:
            # Status 1 would say that it does not fit.
            raise InvalidInput([f"error: {error}"]) from None
        return 0

    ask(where, work, lambda: _answer(question, paths, bases[0], output))


def _answer(question: Question, paths: tuple[str, ...], base: Base, output: str) -> int:
    from dray.answers.manifests.reading import read

    answer = _asked(lambda: plan_reading(read(paths), base, question))
    click.echo(answer.text if output == "text" else structured(answer.document, output), nl=False)
    return _STATUSES[answer.verdict]


def _asked(question: Callable[[], T]) -> T:
    """Returns the answer; leaves with status 2 if a manifest or an option is wrong, after a line for each problem."""
    from dray.cli.allocate import asked

    return asked(question)


def _prices(given: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in given:
        name, _, amount = text.rpartition("=")
        try:
            found[name] = float(amount)
        except ValueError:
            raise click.BadParameter(f"--price {text!r}: write TYPE=AMOUNT, as in p5.48xlarge=55.04") from None
    return found
