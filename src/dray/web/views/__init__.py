"""The views of the page, one module each. A view is listed once, here."""

from __future__ import annotations

from typing import Final

from dray.web.view import View
from dray.web.views import (
    cluster,
    devices,
    history,
    queues,
    try_out,
    waiting,
)

VIEWS: Final[tuple[View, ...]] = (
    cluster.VIEW,
    waiting.VIEW,
    queues.VIEW,
    devices.VIEW,
    try_out.VIEW,
    history.VIEW,
)
