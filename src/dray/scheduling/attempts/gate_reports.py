"""GateReports: reports why `pre_enqueue` keeps pods out of the active queue.

Most gates open within a moment: the claim controller creates the claims of a pod right after the pod, and the pods of a
gang come one after the other. So the reason of a gated pod is reported only once the pod has been gated for a while.
Reports are paced, so that thousands of gated pods do not hold up decisions.
"""

from __future__ import annotations

from typing import Final

from dray.scheduling.model.status import Status
from dray.scheduling.plugins.scheduling_gates import SchedulingGates

PATIENCE: Final = 5.0
"""Seconds after which the reason of a gated pod is reported."""
_PACE: Final = 0.01


class GateReports:
    def __init__(self) -> None:
        self.gated: dict[str, tuple[float, Status]] = {}
        """The time to report a status, and the status, by pod uid. The entries are in the order of time."""
        self._not_before = 0.0

    def put(self, uid: str, status: Status, now: float) -> None:
        """Records that the pod is gated. Gates of the spec are skipped: the API server itself reports them."""
        if status.plugin == SchedulingGates.name:
            self.gated.pop(uid, None)
            return
        known = self.gated.get(uid)
        self.gated[uid] = (known[0] if known is not None else now + PATIENCE), status

    def remove(self, uid: str) -> None:
        self.gated.pop(uid, None)

    def pop(self, now: float) -> tuple[str, Status] | None:
        """Returns the next pod to report, with its status; None if none is due."""
        due = self.due()
        if due is None or now < due:
            return None
        self._not_before = now + _PACE
        uid = next(iter(self.gated))
        return uid, self.gated.pop(uid)[1]

    def due(self) -> float | None:
        first = next(iter(self.gated.values()), None)
        return max(first[0], self._not_before) if first is not None else None

    def clock_set(self, seconds: float) -> None:
        self._not_before += seconds
        self.gated = {uid: (when + seconds, status) for uid, (when, status) in self.gated.items()}
