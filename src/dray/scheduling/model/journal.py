"""Journal: the open trials of the scheduler's state, each with the changes that were tried out and their inverses.

Code that changes the state while a trial is open records the change under a key, so that this change can be taken back
before the others; changes with different keys do not depend on each other. Leaving a trial takes back all remaining
changes, the last first. Trials nest. Code that runs while a trial is open never notifies, wakes, counts or reports.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Self

Change = tuple[str, Hashable]


class Changes:
    """The changes of one trial, which is open between `__enter__` and `__exit__`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._inverses: dict[Change, Callable[[], object]] = {}

    def __enter__(self) -> Self:
        self._journal.trials.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.undo()
        finally:
            self._journal.trials.pop()

    def record(self, change: Change, inverse: Callable[[], object]) -> None:
        """Records a change that was made. No other change may have the same key."""
        assert change not in self._inverses
        self._inverses[change] = inverse

    def take_back(self, change: Change) -> None:
        """Takes back one change of this trial."""
        self._inverses.pop(change)()

    def has(self, change: Change) -> bool:
        return change in self._inverses

    def undo(self) -> None:
        """Takes back all changes, the last first."""
        while self._inverses:
            self._inverses.popitem()[1]()

    def keep(self) -> None:
        """Makes all changes permanent."""
        self._inverses.clear()


class Journal:
    def __init__(self) -> None:
        self.trials: list[Changes] = []
        """The open trials, the innermost last."""

    @property
    def is_open(self) -> bool:
        return bool(self.trials)

    def trial(self) -> Changes:
        """Returns a new trial. Code that changes the state records its changes in the innermost open trial."""
        return Changes(self)

    def record(self, change: Change, inverse: Callable[[], object]) -> None:
        """Records a change in the innermost trial."""
        self.trials[-1].record(change, inverse)

    def has(self, change: Change) -> bool:
        """Whether one of the open trials has made the change."""
        return any(trial.has(change) for trial in self.trials)
