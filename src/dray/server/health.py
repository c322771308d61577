"""Health checks of `/readyz`, by name: each gives the problem it found, or nothing.

`/livez` and `/healthz` ask none of them: a server that answers is alive, and restarting it would mend nothing. Of what
is optional the report tells too, but nobody is sent elsewhere because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Problems = Callable[[], Mapping[str, str]]
"""By name of the check, what is wrong; empty where nothing is."""


class Health:
    def __init__(self) -> None:
        self._watched: list[Problems] = [lambda: {"ping": ""}]
        self._optional: list[Problems] = []

    def watch(self, problems: Problems) -> None:
        self._watched.append(problems)

    def watch_optional(self, problems: Problems) -> None:
        self._optional.append(problems)

    def report(self, check: str) -> tuple[bool, str]:
        """Whether all is well, and a line for each check."""
        found: dict[str, str] = {}
        for problems in self._watched if check == "readyz" else self._watched[:1]:
            found |= problems()
        lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in found.items()]
        well = not any(found.values())
        for problems in self._optional if check == "readyz" else ():
            lines += [f"[!]{name} {why}" if why else f"[+]{name} ok" for name, why in problems().items()]
        return well, "\n".join([*lines, f"{check} check {'passed' if well else 'failed'}", ""])
