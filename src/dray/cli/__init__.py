"""The command line.

`COMMANDS` names every command; `CommandGroup` imports one when it runs, so that `dray --help` stays fast. `TOPICS`
orders them in the help. A command is one module with one click command. Exit statuses are the same everywhere:
0 success, 1 findings or a refusal, 2 the input cannot be read or the command line is wrong.
"""

from __future__ import annotations

import click

from dray.cli.command_group import CommandGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "allocate": (
        "dray.cli.allocate:allocate",
        "Show which devices the claims and pods in files would get, or why none.",
    ),
    "apiserver": ("dray.cli.apiserver:apiserver", "Run only the API server."),
    "apply": ("dray.cli.apply:apply", "Create or update objects from files."),
    "attach": ("dray.cli.attach:attach", "Follow a pod that runs in the background."),
    "backup": ("dray.cli.backup:backup", "Copy a cluster to a file, also while it runs."),
    "cel": ("dray.cli.cel:cel", "Check and evaluate device selectors written in CEL."),
    "completion": ("dray.cli.completion:completion", "Print a script for tab completion in bash, zsh or fish."),
    "controllers": ("dray.cli.controllers:controllers", "Run only the controllers, for example beside Kubernetes."),
    "convert": ("dray.cli.convert:convert", "Rewrite manifests for another version of resource.k8s.io."),
    "defrag": ("dray.cli.defrag:defrag", "Find or evict the pods that must move so that a pending pod fits."),
    "delete": ("dray.cli.delete:delete", "Delete objects by name or from files."),
    "down": ("dray.cli.down:down", "Stop a cluster that runs in the background."),
    "devices": ("dray.cli.devices:devices", "List devices, their state, and the pods that use them."),
    "doctor": ("dray.cli.doctor:doctor", "Check what dray needs of this machine, with a remedy for each problem."),
    "driver": ("dray.cli.driver:driver", "Run a DRA driver, or show the devices it would publish."),
    "examples": ("dray.cli.examples:examples", "Write the example manifests that come with dray."),
    "explain": ("dray.cli.explain:explain", "Explain why a pod or claim got its devices, or why it is pending."),
    "fleet": ("dray.cli.fleet:fleet", "List the machine types for simulation, or copy a cluster as one."),
    "get": ("dray.cli.get:get", "List objects, or print them as YAML or JSON."),
    "join-token": ("dray.cli.join_token:join_token", "Print the command that adds another machine to the cluster."),
    "lint": ("dray.cli.lint:lint", "Check manifests for errors and common mistakes."),
    "logs": ("dray.cli.logs:logs", "Print the output of a pod."),
    "mcp": ("dray.cli.mcp:mcp", "Answer questions of agents over the Model Context Protocol."),
    "node": ("dray.cli.node:node", "Run the pods of this machine; add it to a cluster."),
    "plan": ("dray.cli.plan:plan", "Show where pods would go and what would help, before anything is submitted."),
    "queue": ("dray.cli.queue:queue", "Show queues with their quota and usage, and the pods that wait in them."),
    "replay": ("dray.cli.replay:replay", "Play the tasks of a trace against nodes and compare policies."),
    "restore": ("dray.cli.backup:restore", "Create a data directory from a backup."),
    "run": ("dray.cli.run:run", "Run a command with devices, and return its exit status."),
    "scheduler": ("dray.cli.scheduler:scheduler", "Run only the scheduler, for example beside Kubernetes."),
    "service": ("dray.cli.service:service", "Run a cluster as a systemd service."),
    "snapshot": (
        "dray.cli.snapshot:snapshot",
        "Save what the scheduler reads from a cluster to a file, without secrets.",
    ),
    "status": ("dray.cli.status:status", "Show the state of the cluster that `dray up` runs."),
    "top": ("dray.cli.top:top", "Show devices and pending pods, updated live in a terminal."),
    "topology": ("dray.cli.topology:topology", "Draw sockets, NUMA nodes and PCIe roots with their devices."),
    "ui": ("dray.cli.ui:ui", "Show devices, queues and pending pods in a web page."),
    "usage": ("dray.cli.usage:usage", "Show the device hours that were requested, allocated and used."),
    "user": ("dray.cli.user:user", "Add, list and remove the users of a cluster."),
    "up": ("dray.cli.up:up", "Start a cluster on this machine."),
}

TOPICS: dict[str, tuple[str, ...]] = {
    "Cluster": (
        "up",
        "status",
        "down",
        "node",
        "join-token",
        "user",
        "service",
        "backup",
        "restore",
        "doctor",
        "fleet",
        "apiserver",
    ),
    "Workloads": ("run", "attach", "logs", "apply", "get", "delete"),
    "Devices and reasons": (
        "devices",
        "top",
        "ui",
        "topology",
        "explain",
        "queue",
        "usage",
        "defrag",
        "snapshot",
        "mcp",
    ),
    "Manifests": ("lint", "convert", "allocate", "plan", "replay", "cel", "examples"),
    "On Kubernetes": ("scheduler", "controllers"),
    "Drivers": ("driver",),
    "Shell": ("completion",),
}


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"dray {version('dray')}")
        ctx.exit()


@click.group(
    cls=CommandGroup,
    loaded_from=COMMANDS,
    topics=TOPICS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Run a small Kubernetes in which pods claim GPUs, NICs, TPUs and CPUs, real or simulated.

    \b
    Examples:
      dray up --node --simulate p4d.24xlarge
      dray run --gpu 2 -- nvidia-smi -L
      dray top
      dray explain pod/training
    """
