"""The process that works out answers for the page: explanations, plans, findings and queues.

It reads questions from its input and writes answers to its output, each as a length and a frame, until its input ends.
A question comes with what its viewer may list of the cluster; this process itself has no way to any cluster. It runs
beside the server, so that a plan of some seconds holds nobody up, and the page ends it when it takes too long.
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO, Final

import msgspec

from dray.process.memory import loading
from dray.process.parent import die_with_parent
from dray.snapshot.files import Header, StoredObject, StoredSnapshot

LENGTH_BYTES: Final = 8
_NICENESS: Final = 5


class Asked(msgspec.Struct, array_like=True):
    question: str
    arguments: dict[str, Any]
    cluster: bytes
    """As `encoded` made it."""


class Answered(msgspec.Struct, array_like=True):
    answer: Any = None
    problem: str = ""
    """Why there is no answer, for the viewer."""


class _Packed(msgspec.Struct, array_like=True):
    header: Header
    objects: list[tuple[str, str, list[tuple[tuple[str, str], bytes]]]]


def encoded(snapshot: StoredSnapshot) -> bytes:
    objects = [(version, kind, [tuple(each) for each in found]) for (version, kind), found in snapshot.objects.items()]
    return msgspec.msgpack.encode((snapshot.header, objects))


def decoded(data: bytes) -> StoredSnapshot:
    packed = msgspec.msgpack.decode(data, type=_Packed)
    objects = {(version, kind): [StoredObject(*each) for each in found] for version, kind, found in packed.objects}
    return StoredSnapshot(packed.header, objects)


def too_little(error: Exception) -> str:
    """Returns the message for viewers without the right to list what an answer needs."""
    return (
        f"this is worked out from what you may list, and that is too little: {error}; the role dray:viewer has the "
        "rights that it takes"
    )


def answered(asked: Asked) -> Answered:
    from dray.answers.errors import InvalidInput
    from dray.client.errors import ApiError, ClientError
    from dray.web.questions import QUESTIONS

    try:
        return Answered(QUESTIONS[asked.question](decoded(asked.cluster), asked.arguments))
    except InvalidInput as error:
        return Answered(problem="\n".join(each.removeprefix("error: ") for each in error.problems))
    except ClientError as error:
        is_refused = isinstance(error, ApiError) and error.is_forbidden
        return Answered(problem=too_little(error) if is_refused else str(error))


def frame(value: Any) -> bytes:
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(LENGTH_BYTES) + data


def serve(source: BinaryIO, target: BinaryIO) -> None:
    while len(head := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        data = source.read(int.from_bytes(head))
        target.write(frame(answered(msgspec.msgpack.decode(data, type=Asked))))
        target.flush()


def main() -> None:
    die_with_parent()
    os.nice(_NICENESS)
    # What is printed by mistake must not get between the answers.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with loading():
        import dray.web.questions  # noqa: F401 # before the first question comes
    serve(sys.stdin.buffer, output)
