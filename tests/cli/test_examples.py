from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.suffix in (".yaml", ".py")
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_examples_are_written_and_the_docs_show_what_is_printed(run: Callable[..., Result], here: Path) -> None:
    result = run("examples")
    assert result.exit_code == 0
    assert tree(here / "examples") == tree(EXAMPLES)
    assert {line.split()[0] for line in result.stdout.splitlines()} == {
        f"examples/{path.name}" for path in EXAMPLES.iterdir() if path.name != "__pycache__"
    }
    assert result.stdout in (ROOT / "docs/install.md").read_text()
    assert run("allocate", "examples/cluster").stdout.endswith("2 of 3 fit\n")


def test_another_directory(run: Callable[..., Result], here: Path) -> None:
    assert run("examples", "a/b").exit_code == 0
    assert tree(here / "a/b") == tree(EXAMPLES)


def test_changed_files_are_not_replaced_unless_asked(run: Callable[..., Result], here: Path) -> None:
    run("examples")
    (here / "examples/lab/big.yaml").write_text("mine")
    (here / "examples/lab/cut.yaml").unlink()
    result = run("examples")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: examples/lab/big.yaml exists and differs" in result.stderr
    assert not (here / "examples/lab/cut.yaml").exists()
    assert run("examples", "--force").exit_code == 0
    assert tree(here / "examples") == tree(EXAMPLES)


def test_a_directory_that_cannot_be_written_is_named(run: Callable[..., Result], here: Path) -> None:
    (here / "file").write_text("")
    result = run("examples", "file")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: cannot write file")


def test_the_wheel_has_the_examples_where_they_are_looked_for() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"examples": "dray/examples"}


def test_a_wheel_as_it_is_built_writes_them(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = "from dray.cli import main; main(['examples'])"
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        check=True,
    )
    assert tree(tmp_path / "examples") == tree(EXAMPLES)
