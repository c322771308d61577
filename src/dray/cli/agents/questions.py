"""Answers questions of agents, in a process that does nothing else.

A plan forks copies of its process, which a process with the threads of a server must not do. The cluster of a snapshot
or fleet is kept between questions. A live cluster is read anew for each question, without secrets.
"""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from dray.answers.cluster import Cluster
from dray.answers.errors import InvalidInput
from dray.answers.manifests.reading import MAX_BYTES, SUFFIXES, Reading, of_text
from dray.client.errors import ClientError

MOST_CHARACTERS: Final = 40_000
"""The longest answer; a context window has room for a few of them."""
_SOURCE: Final = "manifests"
_MACHINES: Final = re.compile(r"[\w.:=,-]*", re.ASCII)


class Subject(NamedTuple):
    """Source of the answers: a cluster, a snapshot or a fleet; if all are empty, the cluster of $KUBECONFIG."""

    kubeconfig: str
    snapshot: str
    context: str
    namespace: str
    fleet: tuple[str, ...]


class Refused(Exception):
    """A question that has no answer: lines that say why, and what to do."""


class _Answer(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def document(self) -> Any: ...


def quiet() -> None:
    """Standard output belongs to the protocol: whatever this process prints goes to standard error."""
    os.dup2(2, 1)


def answered(subject: Subject, tool: str, arguments: Mapping[str, Any], output: str) -> str:
    """Returns the text or the JSON of the answer, never longer than MOST_CHARACTERS. Raises Refused."""
    try:
        answer = _TOOLS[tool](subject, dict(arguments))
        return _cut(answer.text) if output == "text" else _json(answer.document)
    except InvalidInput as error:
        raise Refused(_cut("\n".join(error.problems))) from None
    except ClientError as error:
        raise Refused(_cut(f"the server did not answer, or refused: {error}")) from None
    except Refused:
        raise
    except Exception as error:
        traceback.print_exc()
        raise Refused(_cut(f"dray failed on this question: {type(error).__name__}: {error}")) from None


def _cut(text: str) -> str:
    """Returns the first lines and the last one; a line that is too long is cut too."""
    if len(text) <= MOST_CHARACTERS:
        return text
    # Room for the last line, and for the note about lines that are left out.
    last_room = max(200, MOST_CHARACTERS // 20)
    room = MOST_CHARACTERS - last_room
    shown = text[:room].rpartition("\n")[0] or text[:room]
    left = text[len(shown) :].strip("\n").count("\n") + 1
    last = text.rstrip("\n").rpartition("\n")[2]
    last = last if len(last) <= last_room // 2 else f"{last[: last_room // 2]}..."
    return f"{shown}\n... {left} more lines; ask for less, such as one node or queue. The last line is:\n{last}\n"


def _json(document: Any) -> str:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    if len(text) > MOST_CHARACTERS:
        raise Refused(
            f"the answer has {len(text)} characters, more than {MOST_CHARACTERS}; ask for less, or for output text"
        )
    return text


_kept: dict[Subject, tuple[float, Cluster]] = {}


def _cluster(subject: Subject) -> Cluster:
    if not subject.fleet and not subject.snapshot:
        server = Cluster.from_kubeconfig(
            subject.kubeconfig or None, context=subject.context, namespace=subject.namespace
        )
        return server.without_secrets()
    changed = Path(subject.snapshot).stat().st_mtime if Path(subject.snapshot).is_file() else 0.0
    if subject not in _kept or _kept[subject][0] != changed:
        made = (
            Cluster.from_fleet(*subject.fleet)
            if subject.fleet
            else Cluster.from_snapshot(subject.snapshot, namespace=subject.namespace)
        )
        _kept[subject] = changed, made
    return _kept[subject][1]


def _manifests(arguments: dict[str, Any]) -> Reading:
    """Takes text, never a path: an agent reads no file of this machine through it."""
    content = str(arguments.pop("manifests", "")).encode()
    if len(content) > MAX_BYTES:
        raise InvalidInput([f"manifests are larger than {MAX_BYTES // 1024 // 1024} MiB"])
    return of_text(_SOURCE, content) if content.strip() else Reading()


def _explain(subject: Subject, arguments: dict[str, Any]) -> _Answer:
    from dray.answers.explain import explain

    return explain(arguments.pop("target"), _cluster(subject), manifests=_manifests(arguments), **arguments)


def _plan(subject: Subject, arguments: dict[str, Any]) -> _Answer:
    from dray.answers.plan import plan

    for machines in arguments.get("add") or ():
        if not _MACHINES.fullmatch(machines) or machines.endswith(SUFFIXES) or os.path.exists(machines):
            raise InvalidInput([f"{machines!r} is no machine type; write NxTYPE, as in 4xp5.48xlarge"])
    return plan(_manifests(arguments), _cluster(subject), **arguments)


def _lint(subject: Subject, arguments: dict[str, Any]) -> _Answer:
    from dray.answers.lint import lint

    return lint(_manifests(arguments))


def _allocate(subject: Subject, arguments: dict[str, Any]) -> _Answer:
    from dray.answers.allocate import allocate

    return allocate(_manifests(arguments), _cluster(subject), **arguments)


def _devices(subject: Subject, arguments: dict[str, Any]) -> _Answer:
    from dray.answers.devices import devices

    return devices(_cluster(subject), **arguments)


def _queue(subject: Subject, arguments: dict[str, Any]) -> _Answer:
    from dray.answers.queue import queue

    return queue(arguments["name"], _cluster(subject))


def _topology(subject: Subject, arguments: dict[str, Any]) -> _Answer:
    from dray.answers.topology import topology

    return topology(_cluster(subject), **arguments)


_TOOLS: Final[Mapping[str, Callable[[Subject, dict[str, Any]], _Answer]]] = {
    "allocate": _allocate,
    "devices": _devices,
    "explain": _explain,
    "lint": _lint,
    "plan": _plan,
    "queue": _queue,
    "topology": _topology,
}
