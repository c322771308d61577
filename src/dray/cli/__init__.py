"""The command line.

`dray` is a group whose commands are named here and loaded when they are run, so that `dray --help` and
every command pay only for what they use. A command is one module with one click command; it reads with
`manifests`, asks the rooms below, and prints. Exit statuses are the same everywhere: 0 nothing to say, 1
findings, 2 the input cannot be read or the command line is wrong.
"""

from __future__ import annotations

import importlib

import click

from dray.process.memory import loading

COMMANDS: dict[str, tuple[str, str]] = {
    "allocate": ("dray.cli.allocate:allocate", "Say which devices claims and pods would get, or why none."),
    "apiserver": ("dray.cli.apiserver:apiserver", "Serve the Kubernetes API from this machine."),
    "apply": ("dray.cli.apply:apply", "Create or change objects so that they are as files say."),
    "attach": ("dray.cli.attach:attach", "Follow a pod that runs in the background, and end with its exit status."),
    "cel": ("dray.cli.cel:cel", "Check and evaluate device selectors written in CEL."),
    "controllers": ("dray.cli.controllers:controllers", "Run the controllers against an API server."),
    "convert": ("dray.cli.convert:convert", "Rewrite manifests in another version of resource.k8s.io."),
    "defrag": ("dray.cli.defrag:defrag", "Say which pods to move so that a waiting one fits, or move them."),
    "delete": ("dray.cli.delete:delete", "Delete objects of an API server, by name or as files name them."),
    "down": ("dray.cli.down:down", "End a cluster that runs in the background."),
    "devices": ("dray.cli.devices:devices", "Show the devices of a cluster, their state, and who holds them."),
    "doctor": ("dray.cli.doctor:doctor", "Check what dray needs of this machine, with a remedy for each problem."),
    "driver": ("dray.cli.driver:driver", "Run a DRA driver beside a kubelet, or show what it would publish."),
    "examples": ("dray.cli.examples:examples", "Write the example manifests that come with dray."),
    "explain": ("dray.cli.explain:explain", "Show the whole reasoning about one claim or pod as a tree."),
    "fleet": ("dray.cli.fleet:fleet", "Show machine types that can be simulated, or describe a cluster as some."),
    "get": ("dray.cli.get:get", "Show the objects of an API server."),
    "join-token": ("dray.cli.join_token:join_token", "Print the line that brings another machine into the cluster."),
    "lint": (
        "dray.cli.lint:lint",
        "Report what an API server would reject and what its author would regret.",
    ),
    "logs": ("dray.cli.logs:logs", "Print what a container of a pod wrote."),
    "node": ("dray.cli.node:node", "Run the pods that are bound to this machine, where there is no kubelet."),
    "queue": ("dray.cli.queue:queue", "Show queues: quota, what is used and left of it, and who waits."),
    "run": ("dray.cli.run:run", "Run a command with devices, and end with its exit status."),
    "scheduler": ("dray.cli.scheduler:scheduler", "Place the pods of an API server on nodes, with their devices."),
    "status": ("dray.cli.status:status", "Show how a cluster that runs in the background fares."),
    "top": ("dray.cli.top:top", "Show devices, who holds them, and who waits and why; live on a terminal."),
    "topology": ("dray.cli.topology:topology", "Draw where the devices of nodes sit, and who holds them."),
    "user": ("dray.cli.user:user", "Add people to a cluster, list them, and remove them."),
    "up": ("dray.cli.up:up", "Run a cluster on this machine: API server, scheduler, controllers, node."),
}


class LazyGroup(click.Group):
    """Lists commands from `COMMANDS`; imports one when it is invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        with loading():
            command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in sorted(COMMANDS.items())])


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"dray {version('dray')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and leave.",
)
def main() -> None:
    """Dynamic Resource Allocation for Kubernetes, in Python."""
