"""`dray mcp`: a Model Context Protocol server, through which agents ask about a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from dray.cli.cluster import located, snapshot_option


@click.command()
@snapshot_option
@click.option("--fleet", multiple=True, metavar="TYPE=N,...|FILE", help="Answer about these machines without pods.")
@click.option("--allow-writes", is_flag=True, help="Offer tools that apply and delete objects too.")
@located
def mcp(
    fleet: tuple[str, ...],
    allow_writes: bool,
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Answer questions of agents about a cluster, over standard input and output.

    This is a server of the Model Context Protocol (MCP); a client starts it. It offers the tools explain, plan, lint,
    allocate, devices, queue and topology, which read and never write. Answers have no environment variables, commands,
    logs, or annotations of other programs.

    With --allow-writes there are also the tools apply and delete. Each first lets the server check what it would do,
    and does it only when it is called with `confirm`.

    It needs the package mcp: pip install 'dray[mcp]'.

    \b
    Examples:
      dray mcp
      dray mcp --snapshot monday.snapshot
      dray mcp --fleet p5.48xlarge=4

    Exit status: 0 the client ended it, 2 the package mcp is missing, or the options are wrong.
    """
    if sum((bool(fleet), snapshot is not None, bool(kubeconfig or context))) > 1:
        raise click.UsageError("give one of --fleet, --snapshot, and --kubeconfig or --context")
    if allow_writes and (fleet or snapshot is not None):
        raise click.UsageError("--allow-writes needs a cluster: leave --fleet and --snapshot out")
    try:
        from dray.cli.agents.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise click.UsageError("the package mcp is not installed; pip install 'dray[mcp]'") from None
    from dray.cli.agents.questions import Subject

    subject = Subject(str(kubeconfig or ""), str(snapshot or ""), context, namespace, fleet)
    serve(subject, allow_writes=allow_writes)
