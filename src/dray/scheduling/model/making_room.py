"""Pods that are about to be removed for the sake of one that waits, as whoever removes them says in an annotation.

The place is kept for the one that waits before the first of them goes, so that nobody else takes what becomes free. The
annotation counts for a while only: whoever wrote it may have been interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.times import seconds_of, text_of
from dray.scheduling.model.pod import Pod

ANNOTATION: Final = "dray.dev/makes-room-for"
_SEPARATOR: Final = " until "


def mark(title: str, until: float) -> str:
    """The value of the annotation."""
    return f"{title}{_SEPARATOR}{text_of(until)}"


def title_of(pod: Pod) -> str:
    """What the annotation says of a pod that waits."""
    return f"{pod.group.kind} {pod.group.title}" if pod.group is not None else f"Pod {pod.key[0]}/{pod.key[1]}"


def making_room(pods: Iterable[Pod], waiting: Pod, now: float) -> list[Pod]:
    """Those of the pods that are about to go for the one that waits, and are no more urgent."""
    found = []
    for pod in pods:
        text = pod.annotations.get(ANNOTATION)
        if text is None or pod.ghost or pod.priority > waiting.priority:
            continue
        title, _, until = text.partition(_SEPARATOR)
        if title == title_of(waiting) and (seconds_of(until) or 0.0) > now:
            found.append(pod)
    return found
