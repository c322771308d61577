"""The clock of a machine that somebody sets while processes run."""

from datetime import timedelta

from dray.client.clock import SystemTime


class SetTime(SystemTime):
    def __init__(self):
        self._ahead = timedelta()

    def now(self):
        return super().now() + self._ahead

    def set(self, **by):
        """By so much, such as hours=3, from what it is now."""
        self._ahead += timedelta(**by)
