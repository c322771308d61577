from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from click.testing import Result

from dray.cli import COMMANDS, main


def test_every_command_loads_and_has_the_help_that_is_listed(run: Callable[..., Result]) -> None:
    listing = " ".join(run("--help").output.split())
    for name, (_, help_text) in COMMANDS.items():
        assert help_text in listing
        assert run(name, "--help").exit_code == 0


def test_help_imports_no_command() -> None:
    program = (
        "import sys; from dray.cli import main; main(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "dray.cli" in modules
    for heavy in ("dray.cli.lint", "yaml", "msgspec"):
        assert f"'{heavy}'" not in modules


def test_version(run: Callable[..., Result]) -> None:
    assert run("--version").output.startswith("dray ")


def test_an_unknown_command_is_a_usage_error(run: Callable[..., Result]) -> None:
    result = run("lnit")
    assert result.exit_code == 2
    assert "lnit" in result.output
    assert main.name == "main"
