"""`--plugin` of `dray up`, `dray scheduler` and `dray explain`."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.cli.lab import node, pod
from tests.cli.running import Running, eventually, running

Dray = Callable[..., Result]
COLOURS = str(Path(__file__).parents[2] / "examples/plugins/colours.py:Colours")
HANGING = """
from dray.scheduling.plugin import Plugin
class Hanging(Plugin):
    def score(self, cycle, node):
        while True: pass
"""
RED = "apiVersion: v1\nkind: Node\nmetadata: {name: r, labels: {colour: red}}\n---\n"


def picky(name: str, selector: str = "") -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{example.com/forbidden-colours: red}}}}
spec: {{containers: [{{name: c, image: i}}], nodeSelector: {{{selector}}}}}
---
"""


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return str(answer.read().decode())


def address(process: Running) -> str:
    """Of the server, once everything runs."""
    first = process.line()
    assert first, process.end()
    while not process.line().startswith("export "):
        pass
    return first.partition(" at ")[2].partition(" ")[0]


def test_a_good_one_works_beside_one_that_hangs_and_one_that_is_not_there(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    pods = "".join(pod(f"p{number}") for number in range(3))
    (tmp_path / "all.yaml").write_text(RED + node("b") + pods + picky("picky") + picky("odd", "colour: red"))
    plugins = ("--plugin", COLOURS, "--plugin", "hanging.py:Hanging", "--plugin", "missing:Plugin")
    with running("up", "--port", "0", "--plain", *plugins, "all.yaml", cwd=tmp_path) as process:
        server = address(process)
        off = "[!]plugin Hanging switched off: score failed in 3 attempts one after the other; "
        verbose = eventually(lambda: off in (told := read(f"{server}/readyz?verbose")) and told)
        assert "[+]plugin Colours ok\n" in verbose
        assert "[!]plugin missing:Plugin cannot be used: ModuleNotFoundError: No module named 'missing'\n" in verbose
        assert "readyz check passed" in verbose
        assert read(f"{server}/readyz") == "ok"
        config = ("--kubeconfig", str(tmp_path / "dray.kubeconfig"))
        assert eventually(lambda: "on node b" in run("explain", "pod/picky", *config).stdout)
        told = run("explain", "pod/odd", "--plugin", COLOURS, *config)
        assert told.exit_code == 1
        assert "node(s) were red" in told.stdout
        without = run("explain", "pod/odd", "--plugin", "missing:Plugin", *config)
        assert "fits on r" in without.stdout
        assert "plugin missing:Plugin cannot be used" in without.stderr
        assert process.stop()[0] == 0


def test_a_plugin_must_be_named_in_a_form_that_is_known(run: Dray) -> None:
    for wrong in ("", "module:", ":Class", "-"):
        result = run("scheduler", "--plugin", wrong)
        assert result.exit_code == 2
        assert "is not of the form MODULE:CLASS" in result.stderr


def test_the_documentation_shows_the_example() -> None:
    root = Path(__file__).parents[2]
    example = (root / "examples/plugins/colours.py").read_text()
    assert example.partition("\n\n")[2] in (root / "docs/plugins.md").read_text()
    assert len(example.splitlines()) < 30
