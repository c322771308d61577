from __future__ import annotations

import json
from collections.abc import Callable

import click
import pytest
from click.testing import Result

from dray.answers.linting.findings import warning
from dray.answers.manifests.reading import Manifest
from dray.cli.reports import Report, one_line, text
from dray.yaml.text import Position

DUPLICATES = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: y}}\n"


def test_json_has_always_the_same_members(run: Callable[..., Result], write: Callable[..., str]) -> None:
    bad, old = (
        write("a: ["),
        write("apiVersion: resource.k8s.io/v1beta2\nkind: DeviceClass\nmetadata: {name: c}\n", "o.yaml"),
    )
    result = run("lint", "--output", "json", bad, old)
    rows = json.loads(result.stdout)
    assert [row["rule"] for row in rows] == ["unreadable", "old-version"]
    assert rows[0].keys() == rows[1].keys()
    assert {key: rows[1][key] for key in ("file", "line", "column", "severity", "kind", "name", "field")} == {
        "file": "o.yaml",
        "line": 1,
        "column": 1,
        "severity": "warning",
        "kind": "DeviceClass",
        "name": "c",
        "field": "apiVersion",
    }


def test_json_of_nothing_is_an_empty_list(run: Callable[..., Result], write: Callable[..., str]) -> None:
    assert (
        run(
            "lint", "--output", "json", write("apiVersion: internal.apiserver.k8s.io/v1alpha1\nkind: StorageVersion\n")
        ).stdout
        == "[]\n"
    )


def test_github_commands_are_escaped(run: Callable[..., Result], write: Callable[..., str]) -> None:
    path = write("apiVersion: resource.k8s.io/v1\nkind: 100%\n", "a,b:c.yaml")
    result = run("lint", "--output", "github", path, write("a: [", "bad.yaml"))
    assert result.exit_code == 2
    first, second = result.stdout.splitlines()
    assert first.startswith("::error file=bad.yaml,line=1,col=5,title=unreadable::not YAML")
    assert second.startswith(
        "::error file=a%2Cb%3Ac.yaml,line=2,col=1,title=unknown-kind::100%25: kind: there is no kind"
    )


def test_one_line_hides_nothing_and_ends_somewhere() -> None:
    assert one_line("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert len(one_line("x" * 10_000)) == 400


def test_colours_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report([warning("unused-claim", Manifest("m.yaml", {"kind": "Pod"}, Position(1, 1)), "spec", "why")])
    plain = "m.yaml:1:1: warning[unused-claim]: Pod: spec: why\n"
    with click.Context(click.Command("lint"), color=True).scope():
        text(report)
        coloured = capsys.readouterr().out
        assert coloured.startswith("\x1b[1mm.yaml:1:1:\x1b[0m \x1b[33m\x1b[1mwarning[unused-claim]")
        assert click.unstyle(coloured).startswith(plain)
        monkeypatch.setenv("NO_COLOR", "1")
        text(report)
        assert capsys.readouterr().out.startswith(plain)
