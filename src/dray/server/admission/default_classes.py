"""The class that objects without one get, where several are marked as the default.

Kubernetes takes the class that was created last, and of those created in the same second the one with the lowest name.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.objects import Object


def chosen(defaults: Iterable[Object]) -> str | None:
    """Returns the name of the default class among the marked ones; None if there are none."""
    marked = [(default["metadata"]["creationTimestamp"], default["metadata"]["name"]) for default in defaults]
    if not marked:
        return None
    last = max(created for created, _ in marked)
    return str(min(name for created, name in marked if created == last))
