from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dray.cli import main
from dray.client.foreign_kinds import definitions
from tests.cli.queued import FLAVOR
from tests.cli.test_explain_live import Server
from tests.server.process import listening

Run = Callable[..., Result]
Write = Callable[..., str]


@pytest.fixture
def run() -> Run:
    """Runs `dray` with arguments and, as `stdin`, what to read from standard input."""

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(main, arguments, input=stdin, prog_name="dray")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig that leads to an empty server."""
    path = tmp_path / "kubeconfig"
    with listening(kubeconfig=path):
        yield path


@pytest.fixture
def dray(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`dray` where $KUBECONFIG leads to that server."""
    monkeypatch.setenv("KUBECONFIG", str(config))
    return run


@pytest.fixture
def queue_server(run: Run, tmp_path: Path) -> Iterator[Server]:
    """A server with the kinds of queues, a flavor and one node. There is no scheduler."""
    with listening(kubeconfig=tmp_path / "kubeconfig"):
        made = Server(run, tmp_path / "kubeconfig")
        made.apply("\n---\n".join([*map(json.dumps, definitions()), FLAVOR]))
        made.node("n1", 1, cpu="64")
        yield made


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file into the working directory, dedented, and gives back its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(content: str | bytes, name: str = "m.yaml") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).encode())
        return name

    return write_file
