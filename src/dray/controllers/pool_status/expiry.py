"""Expiry of ResourcePoolStatusRequests: answered ones after an hour, unanswered ones after a day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dray.api.objects import Object
from dray.client.clock import moment

_ANSWERED: Final = timedelta(hours=1)
_PENDING: Final = timedelta(hours=24)


def is_expired(request: Object, now: datetime) -> bool:
    status = request.get("status")
    if status is None:
        return _is_older(request["metadata"].get("creationTimestamp"), _PENDING, now)
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed"):
            return _is_older(condition.get("lastTransitionTime"), _ANSWERED, now)
    return _is_older(request["metadata"].get("creationTimestamp"), _ANSWERED, now)


def _is_older(text: str | None, age: timedelta, now: datetime) -> bool:
    return bool(text) and now - moment(str(text)) > age
