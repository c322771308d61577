"""Broken manifests: the first line of `dray lint`, `kubectl describe` or `dray explain` names cause and remedy.

All cases of broken_manifests.yaml are applied to one cluster, with the real commands.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import PATIENCE, eventually, running
from tests.cli.simulated.conftest import KUBECTL, Up
from tests.cli.test_up import wait

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "broken_manifests.yaml").read_text())


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("broken")
    arguments = ("--plain", "--node", "--simulate", "p4d.24xlarge", "--data", "data")
    with running("up", "--port", "0", *arguments, cwd=folder) as started:
        url = next(word for word in " ".join(wait(started)).split() if word.startswith("http://"))
        found = Up(folder, url)
        eventually(lambda: len(found.items("resourceslices")) >= 3)
        yield found
        found.dray("down", "--data", str(folder / "data"), "--pods")


class Case:
    """One manifest, and which answers about it are good."""

    def __init__(self, row: dict[str, Any], up: Up) -> None:
        self.row, self._up = row, up
        self.namespace = row.get("namespace", "default")
        self.good: dict[str, str] = {}
        self.said: dict[str, str] = {}

    @property
    def is_answered(self) -> bool:
        return len(self.good) >= self.row["good"]

    def hear(self, source: str, lines: list[str]) -> None:
        self.said[source] = "\n".join(lines)
        cause, remedy = (self.row[name].replace("{node}", socket.gethostname()) for name in ("cause", "remedy"))
        line = lines[0] if lines else ""
        if re.search(cause, line) and re.search(remedy, line):
            self.good[source] = line

    def apply(self) -> None:
        text = self.row["manifest"] + "".join(
            self.row["copied"].replace("{number}", str(number)) for number in range(self.row.get("copies", 0))
        )
        file = self._up.folder / "broken.yaml"
        file.write_text(text.replace("{node}", socket.gethostname()))
        self.hear("lint", self._up.dray("lint", str(file)).stdout.splitlines())
        self.hear("describe", self._up.dray("apply", "-f", str(file)).stderr.splitlines())

    def ask(self, described: dict[tuple[str, str], list[str]]) -> None:
        if not self.row["target"]:
            return
        name = self.row["target"].rpartition("/")[2]
        self.hear("describe", described.get((self.namespace, name), []))
        answer = self._up.dray("explain", "-n", self.namespace, self.row["target"])
        self.hear("explain", (answer.stdout + answer.stderr).splitlines()[:1])


def described(up: Up) -> dict[tuple[str, str], list[str]]:
    """Returns the warnings of `kubectl describe` by namespace and name; the events if kubectl is missing."""
    found: dict[tuple[str, str], list[str]] = {}
    if KUBECTL is not None:
        text = up.kubectl("describe", "pods,jobs,deployments", "--all-namespaces").stdout
        for block in re.split(r"^(?=Name:)", text, flags=re.MULTILINE):
            heads = dict(re.findall(r"^(Name|Namespace): +(\S+)$", block, flags=re.MULTILINE))
            warnings = re.findall(r"^  Warning  .*", block, flags=re.MULTILINE)
            found[heads.get("Namespace", ""), heads.get("Name", "")] = warnings
        return found
    events = json.loads(up.dray("get", "events", "-A", "-o", "json").stdout)["items"]
    for event in sorted(events, key=lambda event: event.get("lastTimestamp") or ""):
        about = event["involvedObject"]
        if event["type"] == "Warning":
            found.setdefault((about["namespace"], about["name"]), []).append(event["message"])
    return found


def test_broken_manifests(up: Up) -> None:
    cases = [Case(row, up) for row in CASES]
    for case in cases:
        case.apply()
    end = time.monotonic() + PATIENCE
    while (open_cases := [case for case in cases if not case.is_answered]) and time.monotonic() < end:
        known = described(up)
        for case in open_cases:
            case.ask(known)
    unanswered = {case.row["name"]: (case.row["good"], case.said) for case in cases if not case.is_answered}
    assert unanswered == {}
    assert len(cases) >= 40
    assert all(case.row["good"] >= 1 for case in cases)
    assert sum(case.row["good"] >= 2 for case in cases) >= 30


def test_a_node_or_driver_that_does_not_exist_has_no_devices_to_show(up: Up) -> None:
    wrong = up.dray("devices", "--node", "p4d-24xlarge-1")
    assert wrong.exit_code == 1
    assert "node p4d-24xlarge-1 not found; did you mean p4d-24xlarge-0?" in wrong.stderr
    wrong = up.dray("devices", "--driver", "gpu.nvidea.com")
    assert "no ResourceSlice of driver gpu.nvidea.com exists; did you mean gpu.nvidia.com?" in wrong.stderr


def test_top_names_the_claim_that_is_missing(up: Up) -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: claimless}, spec: {containers: [{name: c, image: busybox}],"
    up.apply(f"{pod} resourceClaims: [{{name: gpu, resourceClaimName: training-gpus}}]}}}}")
    eventually(
        lambda: re.search(r"default/claimless .*ResourceClaim default/training-gpus not found", up.dray("top").stdout)
    )
