"""Health of the server: the checks of `/healthz`, `/livez` and `/readyz`, by name.

They have the names that kube-apiserver has for the same part. `poststarthook/…` tells whether something that is done
at the start is done: `expect` names it, `finish` says that it is. Alive is a server that answers, can read its store
and has started; restarting it would mend nothing else. Whether it can also write, and what runs beside it, is asked by
`/readyz` alone. Of what is optional the report tells too, but nobody is sent elsewhere because of it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

Problems = Callable[[], Mapping[str, str]]
"""Returns the problem of each check by name; empty for a healthy one."""
_HOOK: Final = "poststarthook/"
_PENDING: Final = "not finished"
_ENDPOINTS: Final = ("healthz", "livez", "readyz")


class Health:
    def __init__(self) -> None:
        self._alive: list[Problems] = [lambda: {"ping": "", "log": _log_trouble()}]
        self._ready: list[Problems] = []
        self._optional: list[Problems] = []
        self._hooks: dict[str, str] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def watch(self, problems: Problems) -> None:
        """Adds checks of `/readyz`; a check of the same name replaces that of `watch_life` there."""
        self._ready.append(problems)

    def watch_life(self, problems: Problems) -> None:
        """Adds checks of all three endpoints."""
        self._alive.append(problems)

    def watch_optional(self, problems: Problems) -> None:
        self._optional.append(problems)

    def expect(self, *hooks: str) -> None:
        self._hooks |= {_HOOK + name: _PENDING for name in hooks}

    def finish(self, *hooks: str) -> None:
        self._hooks |= {_HOOK + name: "" for name in hooks}

    def problems(self, check: str = "readyz") -> dict[str, str]:
        found: dict[str, str] = {}
        for problems in (*self._alive, *(self._ready if check == "readyz" else ())):
            found |= problems()
        return {**found, **self._hooks}

    def samples(self) -> Iterator[tuple[str, str, str, int]]:
        """Yields endpoint, check, state, and how often that state was found; runs the checks once more."""
        for check in _ENDPOINTS:
            for name, problem in self.problems(check).items():
                self._counts[check, name, "error" if problem else "success"] += 1
        for (check, name, found), count in self._counts.items():
            yield check, name, found, count

    def report(self, check: str, *, only: str = "", without: frozenset[str] = frozenset()) -> tuple[bool, str] | None:
        """Returns whether all checks are good, with a line for each check; None if `only` names an unknown check."""
        found = self.problems(check)
        if only:
            found = {only: found[only]} if only in found else {}
            if not found:
                return None
        lines = [_line(name, "excluded" if name in without else problem) for name, problem in found.items()]
        if unknown := sorted(without - found.keys()):
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        well = not any(problem for name, problem in found.items() if name not in without)
        for problems in self._optional if check == "readyz" and not only else ():
            lines += [f"[!]{name} {why}" if why else _line(name, "") for name, why in problems().items()]
        return well, "\n".join([*lines, f"{check} check {'passed' if well else 'failed'}", ""])


def _line(name: str, problem: str) -> str:
    if problem == "excluded":
        return f"[+]{name} excluded: ok"
    return f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"


def _log_trouble() -> str:
    """Returns why log messages cannot be written; empty if they can."""
    try:
        for handler in logging.getLogger().handlers:
            handler.flush()
    except (OSError, ValueError) as error:
        return str(error)
    return ""
