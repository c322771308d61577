from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dray.answers.manifests import reading as manifests
from dray.answers.manifests.reading import read

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def names(*paths: str) -> list[str]:
    reading = read(paths)
    assert reading.problems == []
    return [manifest.name for manifest in reading.manifests]


def problem(*paths: str) -> str:
    [found] = read(paths).problems
    return str(found)


def test_directories_are_read_in_order_and_hidden_files_left_out(write: Callable[..., str]) -> None:
    for name in ("d/b.yaml", "d/a.yml", "d/c/d.json", "d/.hidden.yaml", "d/.git/x.yaml", "d/notes.txt"):
        write(CONFIG_MAP % Path(name).name.replace(".", "-"), name)
    assert names("d") == ["a-yml", "b-yaml", "d-json"]
    assert names("d/b.yaml", "d", "d/b.yaml") == ["b-yaml", "a-yml", "d-json"]


def test_a_directory_without_manifests_is_a_problem(write: Callable[..., str]) -> None:
    write("x", "d/notes.txt")
    assert problem("d") == "d: no *.yaml, *.yml, *.json in this directory"


def test_a_missing_file_is_a_problem_and_the_others_are_read(write: Callable[..., str]) -> None:
    reading = read(["nowhere.yaml", write(CONFIG_MAP % "a")])
    assert [str(each) for each in reading.problems] == ["nowhere.yaml: cannot read: no such file or directory"]
    assert [manifest.name for manifest in reading.manifests] == ["a"]


def test_lists_are_unpacked_with_their_places(write: Callable[..., str]) -> None:
    path = write("""\
        apiVersion: resource.k8s.io/v1
        kind: DeviceClassList
        items:
        - metadata: {name: a}
        - metadata: {name: b}
          spec: {}
        ---
        apiVersion: v1
        kind: List
        items:
        - apiVersion: v1
          kind: List
          items: [{apiVersion: v1, kind: Pod, metadata: {name: c}}]
        - {apiVersion: v1, kind: Pod, metadata: {name: d}}
        """)
    found = read([path]).manifests
    assert [(each.api_version, each.title, each.place.line) for each in found] == [
        ("resource.k8s.io/v1", "DeviceClass a", 4),
        ("resource.k8s.io/v1", "DeviceClass b", 5),
        ("v1", "Pod c", 13),
        ("v1", "Pod d", 14),
    ]
    assert found[1].place.find("spec").line == 6


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n", "m.yaml:1:1: a list where a Kubernetes object belongs"),
        ("just text\n", "m.yaml:1:1: a single value where a Kubernetes object belongs"),
        ("kind: List\nitems:\n- 1\n", "m.yaml:3:3: a single value where"),
    ],
)
def test_what_is_no_object_is_a_problem(write: Callable[..., str], content: str, message: str) -> None:
    assert problem(write(content)).startswith(message)


def test_properties_survive_any_shape(write: Callable[..., str]) -> None:
    [found] = read([write("apiVersion: 1\nkind: [a]\nmetadata: x\n")]).manifests
    assert (found.api_version, found.kind, found.name, found.namespace, found.title) == ("", "", "", "", "")


def test_standard_input(run: Callable[..., Result]) -> None:
    assert run("lint", "-", stdin=CONFIG_MAP % "a").output == "nothing found in 1 object\n"
    result = run("lint", "-", stdin="a: [")
    assert result.exit_code == 2
    assert result.stderr.startswith("<stdin>:1:")


def test_a_file_of_100_mb_is_refused_unread(write: Callable[..., str]) -> None:
    path = write(b"")
    os.truncate(path, 100 * 1024 * 1024)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    assert problem(path) == "m.yaml:1:1: larger than 16 MiB; split it into smaller files"
    assert time.process_time() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


def test_endless_input_is_refused() -> None:
    program = "import sys; from dray.cli import main; main(['lint', *sys.argv[1:]])"
    with open("/dev/zero", "rb") as zeros:
        result = subprocess.run([sys.executable, "-c", program, "-"], stdin=zeros, capture_output=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr == b"<stdin>:1:1: larger than 16 MiB; split it into smaller files\n"
    assert problem("/dev/zero").startswith("/dev/zero:1:1: larger than 16 MiB")


def test_a_file_as_large_as_the_limit_is_read(write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    content = (CONFIG_MAP % "a").encode()
    monkeypatch.setattr(manifests, "MAX_BYTES", len(content))
    assert names(write(content)) == ["a"]
    monkeypatch.setattr(manifests, "MAX_BYTES", len(content) - 1)
    assert "larger than" in problem(write(content))
