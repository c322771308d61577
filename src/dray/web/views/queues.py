"""Queues: the tree of cohorts and queues with quota, use, share and loans; who is next, and why not yet.

The stream only says that something has changed that matters to queues. The page then asks for the tree, which is worked
out in another process: that takes what the scheduler itself takes into account.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from dray.api.objects import Object, key_of, metadata_of
from dray.api.pods import is_terminal, node_of
from dray.web.model import KINDS
from dray.web.view import Call, Question, View

_QUEUES: Final = ("clusterqueues", "localqueues", "cohorts", "flavors", "kaiqueues")


def derive(question: Question) -> Object:
    """`mark` is another one whenever a queue has changed, or a pod has come, gone or got a node; `queues` says whether
    there are any, so that the page need not ask for the tree. `hidden` names the kinds that the viewer may not list."""
    mark = 0
    for kind in _QUEUES:
        for each in question.objects(kind):
            mark ^= _mark(kind, *key_of(each), str(metadata_of(each).get("generation")))
    for pod in question.objects("pods"):
        if not is_terminal(pod):
            mark ^= _mark("pods", *key_of(pod), node_of(pod))
    return {
        "mark": mark,
        "queues": any(True for kind in _QUEUES for _ in question.objects(kind)),
        "hidden": [KINDS[kind][1] for kind in _QUEUES if question.is_hidden(kind)],
    }


def _mark(*parts: str) -> int:
    return zlib.crc32("\0".join(parts).encode())


async def tree(call: Call) -> Any:
    """All queues; `kind` and `name` choose one to tell more about."""
    chosen = {"kind": call.text("kind", ""), "name": call.text("name", "")}
    return await call.desk.ask(call.identity, "queues", chosen)


VIEW: Final = View("queues", ("pods", *_QUEUES), derive, calls={"tree": tree}, interval=0.5)
