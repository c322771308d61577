"""The clock of a machine that somebody sets while processes run."""

from datetime import timedelta

from dray.client.clock import SystemTime


class SetTime(SystemTime):
    def __init__(self):
        self._ahead = timedelta()

    def now(self):
        return super().now() + self._ahead

    def set(self, **by):
        """Moves the clock forward by a duration such as hours=3; a negative duration moves it back."""
        self._ahead += timedelta(**by)
