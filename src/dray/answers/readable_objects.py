"""Reports objects that a scheduler cannot read and that an answer leaves out."""

from __future__ import annotations

from dray.answers.one_line import one_line
from dray.answers.source import Tell
from dray.api.objects import Object, key_of
from dray.snapshot.listing import Unreadable


def telling_unreadable(tell: Tell) -> Unreadable:
    """Returns a callback that tells in one line which object cannot be read, and why."""

    def unreadable(kind: str, obj: Object, error: Exception) -> None:
        name = "/".join(filter(None, key_of(obj)))
        said = one_line(str(error)) or type(error).__name__
        tell(f"{kind} {name} cannot be read and is left out: {said}")

    return unreadable
