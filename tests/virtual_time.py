"""An event loop whose clock jumps to the next timer as soon as nothing is left to do: waiting costs no time.

Only for what happens within the process. With everything else handed in, a run is the same each time.
"""

import asyncio
import selectors
from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class Stuck(AssertionError):
    """Everybody waits and nothing will happen."""


class _Selector(selectors.DefaultSelector):
    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        # Work takes time too: who finds that a moment is not quite there yet must not find that for ever.
        self.now += 1e-6
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise Stuck
        self.now += max(timeout, 0.0)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self):
        return self._virtual.now


class VirtualTime:
    """The time of day of whatever loop runs."""

    def now(self):
        return _BEGINNING + timedelta(seconds=asyncio.get_running_loop().time())
