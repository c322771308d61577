"""Status line: what is going on, on standard error.

On a terminal, passing states share one line that changes. Reasons are printed in full, each on a line of its own,
whenever they change.
"""

from __future__ import annotations

import os
import sys

from dray.answers.views.layout import cell_text

_ERASE = "\r\x1b[K"


class StatusLine:
    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._shown = ""
        self._open = False

    def show(self, text: str, *, passing: bool = False) -> None:
        """Shows a state; one that passes in a moment is shown on a terminal only, cut to its width."""
        text = cell_text(text)
        if self._quiet or text == self._shown:
            return
        if not passing:
            self.say(text)
            self._shown = text
        elif self._terminal:
            self._shown = text
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            self._open = True
            self._write(_ERASE + (text if len(text) < width else text[: width - 2] + "…"))

    def say(self, text: str) -> None:
        """Prints a line that stays, unless it is the last one already."""
        text = cell_text(text)
        stands = not self._open and text == self._shown
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
