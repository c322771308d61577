"""`dray completion`: prints the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes the commands and options of dray in SHELL.

    \b
    Examples:
      source <(dray completion bash)
      dray completion zsh > "${fpath[1]}/_dray"
      dray completion fish > ~/.config/fish/completions/dray.fish

    Exit status: 0 printed, 2 the shell is unknown.
    """
    script = get_completion_class(shell)
    assert script is not None
    # `source` of the class for bash runs bash to learn its version; the script itself does not depend on it.
    complete = script(ctx.find_root().command, {}, "dray", "_DRAY_COMPLETE")
    click.echo(complete.source_template % complete.source_vars())
