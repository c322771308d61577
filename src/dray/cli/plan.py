"""`dray plan`: where pods would go, who would be affected, and what would help, before anything is submitted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from dray.allocation import POLICIES
from dray.api.objects import Object
from dray.cli.cluster import Cluster, Where, ask, located, snapshot_option
from dray.cli.output_formats import output_option, structured
from dray.cli.policies import policy_option
from dray.cli.reports import one_line

if TYPE_CHECKING:
    from dray.fleet.machine import Machine
    from dray.planning.changes import Change
    from dray.planning.plan import Plan

_STATUSES: Final = {"Fits": 0, "DoesNotFit": 1, "FitsWithChange": 3}


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line."""

    paths: tuple[str, ...]
    add: tuple[str, ...]
    drain: tuple[str, ...]
    without: tuple[str, ...]
    quota: tuple[str, ...]
    prices: tuple[str, ...]
    policy: str
    seconds: float
    output: str


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
    wanted = Asked(**asked)  # type: ignore[arg-type]
    where = Where(kubeconfig, context, namespace, snapshot)
    if fleet:
        _plan_fleet(wanted, fleet, where)
    _plan_cluster(wanted, where)


def _plan_fleet(wanted: Asked, fleet: tuple[str, ...], where: Where) -> NoReturn:
    from dray.planning.fleet_scene import fleet_objects

    if where.snapshot or where.kubeconfig or where.context:
        raise click.UsageError("--fleet plans without a cluster: leave --snapshot, --kubeconfig and --context out")
    machines, namespace = _machines(fleet), where.namespace or "default"
    sys.exit(_answer(wanted, fleet_objects(machines), [], namespace, time.time(), machines=machines))


def _plan_cluster(wanted: Asked, where: Where) -> NoReturn:
    read: list[Callable[[], int]] = []

    async def work(cluster: Cluster) -> int:
        from dray.snapshot.listing import listed

        found, classes = await listed(cluster.client), await _priority_classes(cluster)
        notes = [f"not taken into account: {said}" for said in found.unread.values()]
        notes += [*dict.fromkeys(found.left.values()), *found.doubts]
        read.append(lambda: _answer(wanted, found.objects, classes, cluster.namespace, cluster.now(), notes))
        return 0

    ask(where, work, lambda: read[0]())


def _machines(choices: tuple[str, ...]) -> tuple[Machine, ...]:
    from dray.cli.fleet_choice import chosen_fleet

    return chosen_fleet(choices, None).machines if choices else ()


async def _priority_classes(cluster: Cluster) -> list[Object]:
    from dray.api.catalogue import built_in
    from dray.client.errors import ApiError

    try:
        return list(
            (await cluster.client.list_all(built_in("scheduling.k8s.io/v1", "PriorityClass"))).get("items") or ()
        )
    except ApiError:
        return []


def _answer(
    asked: Asked,
    objects: dict[str, list[Object]],
    classes: Sequence[Object],
    namespace: str,
    now: float,
    notes: Sequence[str] = (),
    machines: Sequence[Machine] = (),
) -> int:
    """`machines` are those of --fleet."""
    from dray.planning.changes import ChangeError
    from dray.planning.plan_document import plan_document

    try:
        made, more = _planned(asked, objects, classes, namespace, now, machines)
    except ChangeError as error:
        click.echo(one_line(f"error: {error}"), err=True)
        return 2
    if asked.output == "text":
        from dray.cli.plan_text import plan_lines

        for line in plan_lines(made, (*notes, *more)):
            click.echo(one_line(line))
    else:
        click.echo(structured(plan_document(made, (*notes, *more)), asked.output), nl=False)
    return _STATUSES[made.verdict.value]


def _planned(
    asked: Asked,
    objects: dict[str, list[Object]],
    classes: Sequence[Object],
    namespace: str,
    now: float,
    machines: Sequence[Machine],
) -> tuple[Plan, list[str]]:
    """Raises ChangeError; leaves with status 2 if a manifest or an option is wrong."""
    from dray.cli.manifests import read
    from dray.cli.plan_manifests import planned_objects
    from dray.cli.stored import Unusable
    from dray.planning.plan import make_plan
    from dray.planning.scene import Scene
    from dray.planning.suggestions import Budget
    from dray.scheduling.scheduler import Options

    reading = read(asked.paths)
    problems = list(reading.problems)
    try:
        planned = planned_objects(reading.manifests, namespace, classes, now)
    except Unusable as unusable:
        problems += unusable.problems
    if problems:
        for problem in problems:
            click.echo(one_line(str(problem)), err=True)
        sys.exit(2)
    added = _machines(tuple(map(_as_choice, asked.add)))
    made = make_plan(
        Scene(objects, planned.objects, now),
        _changes(asked, added),
        Options(policy=POLICIES[asked.policy]),
        prices=_prices(asked.prices, (*machines, *added)),
        budget=Budget(tries=60 if asked.seconds > 0 else 0, seconds=asked.seconds),
        clock=time.monotonic,
    )
    return made, planned.notes


def _changes(asked: Asked, added: Sequence[Machine]) -> list[Change]:
    from dray.planning.changes import add_machines, drain, set_quota, without

    changes = [drain(each) for each in asked.drain]
    changes += [without(each) for each in asked.without]
    for text in asked.quota:
        queue, equals, rest = text.partition("=")
        resource, colon, amount = rest.rpartition(":")
        if not (queue and equals and resource and colon and amount):
            raise click.BadParameter(
                f"{text!r}: write QUEUE=RESOURCE:AMOUNT, as in team-a=gpu.nvidia.com:16", None, None
            )
        changes.append(set_quota(queue, resource, amount))
    return [*changes, add_machines(added)] if added else changes


def _as_choice(text: str) -> str:
    """Returns `4xp5.48xlarge` as `p5.48xlarge=4`, as --fleet has it."""
    count, x, type_ = text.partition("x")
    return f"{type_}={count}" if x and count.isascii() and count.isdecimal() else text


def _prices(given: Sequence[str], machines: Sequence[Machine]) -> dict[str, float]:
    """Returns prices by type: of the machine types in the user's files, and of the command line."""
    types = {each.type.name: each.type for each in machines}.values()
    found = {each.name: each.hourly_price for each in types if each.hourly_price is not None}
    for text in given:
        name, _, amount = text.rpartition("=")
        try:
            found[name] = float(amount)
        except ValueError:
            raise click.BadParameter(f"--price {text!r}: write TYPE=AMOUNT, as in p5.48xlarge=55.04") from None
    return found
