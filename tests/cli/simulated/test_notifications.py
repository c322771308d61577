"""Notifications of `dray run`, by the command that `dray up --notify-command` names."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.running import eventually
from tests.cli.simulated.conftest import Up


def told(up: Up, name: str) -> dict[str, Any] | None:
    """Returns the notification about the pod that the command has read."""
    for path in up.folder.glob("told.*"):
        try:
            found = json.loads(path.read_text())
        except ValueError:
            # It is being written.
            continue
        if found["name"] == name:
            return dict(found)
    return None


def test_the_end_of_a_run_is_told(up: Up) -> None:
    assert up.dray("run", "--name", "breaks", "--", "sh", "-c", "exit 7").exit_code == 7
    found = eventually(lambda: told(up, "breaks"))
    assert (found["event"], found["kind"], found["namespace"], found["exitCode"]) == ("Failed", "Pod", "default", 7)
    assert up.dray("run", "--name", "works", "--", "true").exit_code == 0
    found = eventually(lambda: told(up, "works"))
    assert (found["event"], found["exitCode"]) == ("Succeeded", 0)
