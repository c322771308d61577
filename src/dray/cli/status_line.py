"""Status line: what is going on, on standard error; one line that changes on a terminal, a line a change elsewhere."""

from __future__ import annotations

import os
import sys

from dray.cli.layout import cell_text

_ERASE = "\r\x1b[K"


class StatusLine:
    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._shown = ""
        self._open = False

    def show(self, text: str, *, passing: bool = False) -> None:
        """Replaces what was shown, on a terminal; what passes in a moment is shown nowhere else."""
        text = cell_text(text)
        if self._quiet or text == self._shown or (passing and not self._terminal):
            return
        self._shown = text
        if self._terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            self._open = True
            self._write(_ERASE + (text if len(text) < width else text[: width - 2] + "…"))
        else:
            self._write(text + "\n")

    def say(self, text: str) -> None:
        """A line that stays."""
        text = cell_text(text)
        stands = not self._terminal and text == self._shown
        self.clear()
        if not (self._quiet or stands):
            self._write(text + "\n")

    def clear(self) -> None:
        if self._open:
            self._write(_ERASE)
        self._open, self._shown = False, ""

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
