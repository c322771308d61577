"""`dray devices`: the devices of a cluster as a table, each with its state and who holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from dray.allocation.device_states import STATES, DeviceState, device_states
from dray.api.catalogue import built_in
from dray.api.objects import Object
from dray.api.suggestions import suggestion
from dray.cli.cluster import Cluster, Where, ask, sourced
from dray.cli.device_facts import capacity, kind, place, table
from dray.cli.device_sources import PODS, as_v1, device_sources
from dray.cli.output_formats import output_option, structured
from dray.cli.utilization_text import busy, idle, memory_used


@click.command()
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Show devices of this node only; repeatable.")
@click.option(
    "--driver", "drivers", multiple=True, metavar="NAME", help="Show devices of this driver only; repeatable."
)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES), help="Show devices in this state only; repeatable."
)
@output_option("table", "wide", "json", "yaml", "name")
@sourced
def devices(
    nodes: tuple[str, ...],
    drivers: tuple[str, ...],
    states: tuple[str, ...],
    output: str,
    kubeconfig: Path | None,
    context: str,
    snapshot: Path | None,
) -> None:
    """List devices, their state, and the claims and pods that use them.

    \b
    Examples:
      dray devices
      dray devices --state free --node p4d-24xlarge-0
      dray devices -o wide
      dray devices --state free -o name
      dray devices --snapshot monday.snapshot

    Exit status: 0 printed, 1 the server refused or there is no such node or driver, 2 the server cannot be reached.
    """

    async def work(cluster: Cluster) -> int:
        every = await listed(cluster)
        await _check_nodes(cluster, nodes, {each.node for each in every})
        _check_drivers(drivers, {each.place[0] for each in every})
        found = [
            each
            for each in every
            if (not nodes or each.node in nodes)
            and (not drivers or each.place[0] in drivers)
            and (not states or each.state in states)
        ]
        if output == "name":
            click.echo("".join(f"{'/'.join(each.place)}\n" for each in found), nl=False)
            return 0
        if output not in ("table", "wide"):
            click.echo(structured([device_document(each) for each in found], output), nl=False)
            return 0
        for line in lines(found, wide=output == "wide"):
            click.echo(line)
        click.echo(summary(found), err=True)
        return 0

    ask(Where(kubeconfig, context, "", snapshot), work)


async def _check_nodes(cluster: Cluster, wanted: Iterable[str], known: set[str]) -> None:
    """Raises ClickException for a node that does not exist; one without devices is fine."""
    from dray.client.errors import ApiError, NotFound

    for name in wanted:
        if name in known:
            continue
        try:
            await cluster.client.get(built_in("v1", "Node"), name)
        except NotFound:
            raise click.ClickException(f"node {name} not found; {suggestion(name, filter(None, known))}") from None
        except ApiError:
            # The user may not read nodes.
            continue


def _check_drivers(wanted: Iterable[str], known: set[str]) -> None:
    for name in wanted:
        if name not in known:
            raise click.ClickException(f"no ResourceSlice of driver {name} exists; {suggestion(name, known)}")


async def listed(cluster: Cluster) -> list[DeviceState]:
    from dray.client.errors import ApiError

    client = cluster.client
    sources = await device_sources(client)
    if sources is None:
        raise click.ClickException("this server has no resourceslices: it is older than DRA, or DRA is switched off")
    slices = (await client.list_all(sources.slices))["items"]
    claims = (await client.list_all(sources.claims))["items"]
    rules: list[Object] = []
    if sources.rules is not None:
        try:
            rules = (await client.list_all(sources.rules))["items"]
        except ApiError as error:
            if not error.is_forbidden:
                raise
    pods = (await client.list_all(PODS))["items"]
    return device_states(
        [as_v1(each, sources.slices, "ResourceSlice") for each in slices],
        [as_v1(each, sources.claims, "ResourceClaim") for each in claims],
        pods,
        rules,
        seen_at=cluster.now(),
    )


def lines(states: list[DeviceState], *, wide: bool = False) -> list[str]:
    """Pools are shown where they are not those of nodes."""
    pooled = wide or any(each.place[1] != each.node for each in states)
    columns = ("Node", *(("Pool",) if pooled else ()), "Driver", "Device", "Kind", "State", "Claim", "Pods")
    columns += ("Busy", "Memory used", "PCIe root", "NUMA", "Capacity") if wide else ()
    return table(columns, [_row(each, pooled, wide) for each in states])


def _row(state: DeviceState, pooled: bool, wide: bool) -> tuple[Any, ...]:
    driver, pool, device = state.place
    claims = ", ".join(each.text for each in state.holders) or "-"
    pods = ", ".join(sorted({pod for each in state.holders for pod in each.pods})) or "-"
    row = (state.node or "-", *((pool,) if pooled else ()), driver, device, kind(state.document))
    use = busy(state.utilization), memory_used(state.utilization)
    further = (*use, *place(state.document), capacity(state.document)) if wide else ()
    return (*row, described(state), claims, pods, *further)


def described(state: DeviceState) -> str:
    """The state of a device, how much of it is in use if it is shared, its taints, and for how long it is idle."""
    text = state.state
    if used := state.used():
        text += ": " + ", ".join(f"{amount} of {total} {name}" for name, (amount, total) in used.items())
    if state.taints:
        taints = ", ".join(f"{each['key']}:{each['effect']}" for each in state.taints)
        text += f" ({taints})" if text.startswith("tainted") else f", tainted ({taints})"
    now = datetime.now(UTC) if state.seen_at is None else datetime.fromtimestamp(state.seen_at, UTC)
    if since := idle(state.utilization, now):
        text += f", idle for {since}"
    return text


def summary(states: list[DeviceState]) -> str:
    counts = Counter(each.state for each in states)
    parts = [f"{counts[each]} {each}" for each in STATES if counts[each]]
    return f"{len(states)} devices{': ' if parts else ''}{', '.join(parts)}"


def device_document(state: DeviceState) -> Object:
    driver, pool, device = state.place
    return {
        "node": state.node,
        "driver": driver,
        "pool": pool,
        "device": device,
        "kind": kind(state.document),
        "state": state.state,
        "taints": list(state.taints),
        "utilization": state.utilization.document() if state.utilization is not None else {},
        "claims": [
            {"claim": each.claim, "pods": list(each.pods), "consumedCapacity": dict(each.share)}
            for each in state.holders
        ],
        "attributes": state.document.get("attributes") or {},
        "capacity": state.document.get("capacity") or {},
    }
