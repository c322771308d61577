from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import Result

PROGRAM = "from dray.cli import main; main(prog_name='dray')"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(run: Callable[..., Result], shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_DRAY_COMPLETE={shell}_complete" in result.output


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_accepts_the_script(run: Callable[..., Result]) -> None:
    script = run("completion", "bash").output + "\ncomplete -p dray\n"
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert "_dray_completion dray" in done.stdout, done.stderr


@pytest.mark.parametrize(("words", "expected"), [("dray lo", "logs"), ("dray run --pri", "--priority-class")])
def test_commands_and_options_are_completed(words: str, expected: str) -> None:
    environment = {**os.environ, "_DRAY_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split()) - 1)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert f"plain,{expected}" in done.stdout.splitlines(), done.stderr
