"""Logs of the parts of `dray up` as those of pods: `kubectl logs -n kube-system kube-scheduler-NODE` shows one.

Each part is a process, or some loggers of one. What they say from INFO on goes to a file where the node agent has the
logs of containers, in the same form; warnings go to the terminal as well. Without a node there is nobody who could be
asked for them, and no such pods.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

API_SERVER: Final = "kube-apiserver"
SCHEDULER: Final = "kube-scheduler"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
PARTS: Final = (API_SERVER, SCHEDULER, CONTROLLER_MANAGER)
# That of a container.
_SIZE: Final = 10 << 20
_FILES: Final = 5
_STDERR: Final = 2
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True)
class PartLogs:
    """Writes the logs of `dray up`'s parts into the agent's directory `root`, as logs of pods of the node."""

    root: Path
    node: str

    def open(self, part: str, loggers: Iterable[str] = ("",), *, but: str = "") -> None:
        """Makes this process a part: these loggers, except `but`, write to the part's log."""
        from dray.node.host_parts import begin
        from dray.node.runtimes.shim.log import Log

        handler = _PartHandler(Log(str(begin(self.root, part, self.node)), size=_SIZE, files=_FILES))
        if but:
            handler.addFilter(lambda record: not record.name.startswith(but))
        for name in loggers:
            logging.getLogger(name).addHandler(handler)
        for known in logging.getLogger().handlers:
            if not isinstance(known, _PartHandler):
                known.setLevel(logging.WARNING)
        logging.getLogger("dray").setLevel(logging.INFO)


class _PartHandler(logging.Handler):
    def __init__(self, log: object) -> None:
        from dray.node.runtimes.shim.log import Log

        super().__init__(logging.INFO)
        assert isinstance(log, Log)
        self._log = log
        self.setFormatter(logging.Formatter(_FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.write(_STDERR, self.format(record).encode(errors="replace") + b"\n")
        except Exception:
            self.handleError(record)


def command() -> tuple[str, ...]:
    """Returns the command line of `dray up`; its parts have none of their own."""
    return (Path(sys.argv[0]).name, *sys.argv[1:])
