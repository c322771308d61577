"""Logs of the parts of `dray up`, as those of containers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.cli.part_logs import CONTROLLER_MANAGER, SCHEDULER, PartLogs
from dray.node.host_parts import log_directory


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """As they were, afterwards."""
    named = [logging.getLogger(name) for name in ("", "dray", "dray.scheduler")]
    before = [(each, each.level, list(each.handlers)) for each in named]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def lines(root: Path, part: str) -> list[str]:
    text = (log_directory(root, part, "n") / "0.log").read_text()
    return [line.split(" ", 3)[3] for line in text.splitlines()]


def test_each_part_has_what_it_says(tmp_path: Path) -> None:
    logs = PartLogs(tmp_path, "n")
    logs.open(SCHEDULER, ["dray.scheduler"])
    logs.open(CONTROLLER_MANAGER, but="dray.scheduler")
    logging.getLogger("dray.scheduler").info("Pod default/p bound to %s", "n")
    logging.getLogger("dray.controllers").warning("one\ntwo")
    logging.getLogger("dray.controllers").debug("unseen")
    assert [line.partition(": ")[2] for line in lines(tmp_path, SCHEDULER)] == ["Pod default/p bound to n"]
    assert lines(tmp_path, CONTROLLER_MANAGER)[0].endswith("WARNING dray.controllers: one")
    assert lines(tmp_path, CONTROLLER_MANAGER)[1:] == ["two"]
