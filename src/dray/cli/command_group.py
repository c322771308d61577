"""The top-level command group: loads commands lazily, lists them by topic, and prints errors in one form.

Every error is one line on standard error that starts with `error: `, also the ones that click raises for a wrong
command line. A wrong command line adds a second line with the `--help` to read.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from dray.api.suggestions import did_you_mean
from dray.process.memory import loading

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandError(click.ClickException):
    """An error of click, printed as `error: ...`."""

    def __init__(self, cause: click.ClickException) -> None:
        super().__init__(cause.format_message())
        self.exit_code = cause.exit_code  # type: ignore[misc]  # click reads it from the instance.
        self._cause = cause

    def show(self, file: IO[Any] | None = None) -> None:
        output = file or sys.stderr
        if type(self._cause).__name__ == "NoArgsIsHelpError":
            self._cause.show(output)
            return
        click.echo(f"error: {self._text()}", file=output)
        context = getattr(self._cause, "ctx", None)
        if context is not None:
            click.echo(f"See '{context.command_path} --help'.", file=output)

    def _text(self) -> str:
        if not isinstance(self._cause, click.UsageError):
            return self.message
        text = " ".join(self.message.split()).removesuffix(".")
        return text[:1].lower() + text[1:]


@contextmanager
def errors_in_one_form() -> Iterator[None]:
    try:
        yield
    except CommandError:
        raise
    except click.ClickException as error:
        raise CommandError(error) from error


class CommandGroup(click.Group):
    """Imports a command when it is invoked.

    `loaded_from` maps a command to "module:attribute" and its short help; `topics` maps a heading to commands.
    """

    def __init__(
        self,
        *arguments: Any,
        loaded_from: Mapping[str, tuple[str, str]],
        topics: Mapping[str, Sequence[str]],
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._loaded_from = loaded_from
        self._topics = topics

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with errors_in_one_form():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with errors_in_one_form():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._loaded_from)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._loaded_from:
            return None
        module, _, attribute = self._loaded_from[cmd_name][0].partition(":")
        with loading():
            command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._loaded_from and not name.startswith("-") and not ctx.resilient_parsing:
            question = did_you_mean(name, self._loaded_from, most=3)
            raise click.UsageError(f"no such command {name!r}{f'; {question}' if question else ''}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name for names in self._topics.values() for name in names}
        rest = [name for name in sorted(self._loaded_from) if name not in listed]
        width = max(map(len, self._loaded_from))
        for topic, names in (*self._topics.items(), ("Other", rest)):
            if names:
                with formatter.section(topic):
                    formatter.write_dl([(name.ljust(width), self._loaded_from[name][1]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes names from the list, because importing all commands takes a second."""
        from click.shell_completion import CompletionItem

        commands = sorted(self._loaded_from.items())
        named = [CompletionItem(name, help=text) for name, (_, text) in commands if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]
