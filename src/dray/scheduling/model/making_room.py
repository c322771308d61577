"""Pods that are about to be evicted for a waiting pod, as an annotation on them says (`dray defrag --apply`).

The scheduler reserves their resources for the waiting pod before the first of them is evicted, so that no other pod
takes them. The annotation expires, since the command that wrote it may have been interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.times import seconds_of, text_of
from dray.scheduling.model.pod import Pod

ANNOTATION: Final = "dray.dev/makes-room-for"
_SEPARATOR: Final = " until "


def mark(title: str, until: float) -> str:
    """Returns the value of the annotation: the waiting pod or group, and when the annotation expires."""
    return f"{title}{_SEPARATOR}{text_of(until)}"


def title_of(pod: Pod) -> str:
    """Returns how the annotation names a waiting pod: by its group if it has one."""
    return f"{pod.group.kind} {pod.group.title}" if pod.group is not None else f"Pod {pod.key[0]}/{pod.key[1]}"


def making_room(pods: Iterable[Pod], waiting: Pod, now: float) -> list[Pod]:
    """Returns the pods that are about to be evicted for the waiting pod and do not have a higher priority."""
    marked = []
    for pod in pods:
        text = pod.annotations.get(ANNOTATION)
        if text is None or pod.is_placeholder or pod.priority > waiting.priority:
            continue
        title, _, until = text.partition(_SEPARATOR)
        if title == title_of(waiting) and (seconds_of(until) or 0.0) > now:
            marked.append(pod)
    return marked
