"""JSON patch (RFC 6902) the way a Kubernetes API server carries it out.

A patch is decoded and bounded first (400 and 413), then its operations are applied in turn to a copy (422 where one
does not apply). Against the letter of the RFC: negative indices count from the end, a missing member passes a
`test` for null, and only `replace` and `test` may address the whole document. What `copy` duplicates is counted, so
that a short patch cannot make a huge object.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec

from dray.server.status import ApiError, bad_request, does_not_apply

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024

_INDEX = re.compile(r"-?\d{1,9}", re.ASCII)


def json_patch(document: dict[str, Any], patch: Any) -> Any:
    """Returns the patched document, which may be any JSON value; the argument is not changed."""
    operations = _decode(patch)
    state = _State(deepcopy(document))
    for operation in operations:
        carry_out = _OPERATIONS.get(operation["op"])
        if carry_out is None:
            raise does_not_apply(f"Unexpected kind: {operation['op']}")
        carry_out(state, operation)
    return state.root


def _decode(patch: Any) -> list[dict[str, Any]]:
    if not isinstance(patch, list):
        raise bad_request("a JSON patch must be a list of operations")
    if len(patch) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise ApiError(413, "RequestEntityTooLarge", text)
    for operation in patch:
        if not isinstance(operation, dict):
            raise bad_request("an operation of a JSON patch must be an object")
        for member in ("op", "path", "from"):
            if member in operation and not isinstance(operation[member], str):
                raise bad_request(f"the member {member} of a JSON patch operation must be a string")
        operation.setdefault("op", "")
    return patch


class _State:
    """The document being patched, and the amount that was copied so far."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied = 0

    def place(self, operation: dict[str, Any], member: str = "path") -> tuple[Any, str]:
        """Returns the container that a pointer leads to, and the last step in it."""
        pointer = operation.get(member, "")
        steps = pointer.split("/")
        if len(steps) < 2 or steps[0]:
            raise does_not_apply(f"{operation['op']} operation does not apply: doc is missing path: {pointer!r}")
        container = self.root
        for step in steps[1:-1]:
            container = _get(container, _unescape(step))
        if not isinstance(container, (dict, list)):
            raise does_not_apply(f"{operation['op']} operation does not apply: doc is missing path: {pointer!r}")
        return container, _unescape(steps[-1])


def _unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _index(container: list[Any], step: str, *, adding: bool = False) -> int:
    if not _INDEX.fullmatch(step):
        raise does_not_apply(f"unable to use {step!r} as an index of a list")
    index = int(step)
    limit = len(container) + adding
    if index < 0:
        index += limit
    if not 0 <= index < limit:
        raise does_not_apply(f"unable to access invalid index: {step}")
    return index


def _get(container: Any, step: str) -> Any:
    """Returns the value at a step; None if there is none, so that the caller can raise its own error."""
    if isinstance(container, dict):
        return container.get(step)
    if isinstance(container, list):
        return container[_index(container, step)]
    return None


def _require(container: Any, step: str, what: str) -> Any:
    if isinstance(container, dict) and step not in container:
        raise does_not_apply(f"{what} operation does not apply: doc is missing key: {step}")
    return _get(container, step)


def _insert(container: Any, step: str, value: Any) -> None:
    if isinstance(container, dict):
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        container.insert(_index(container, step, adding=True), value)


def _delete(container: Any, step: str) -> None:
    if isinstance(container, dict):
        del container[step]
    else:
        del container[_index(container, step)]


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise does_not_apply(f"{operation['op']} operation has no value")
    # Copied: two operations may share a value, and a later one may change it in place.
    return deepcopy(operation["value"])


def _add(state: _State, operation: dict[str, Any]) -> None:
    container, step = state.place(operation)
    _insert(container, step, _value(operation))


def _remove(state: _State, operation: dict[str, Any]) -> None:
    container, step = state.place(operation)
    _require(container, step, "remove")
    _delete(container, step)


def _replace(state: _State, operation: dict[str, Any]) -> None:
    if not operation.get("path"):
        state.root = _value(operation)
        return
    container, step = state.place(operation)
    _require(container, step, "replace")
    if isinstance(container, dict):
        container[step] = _value(operation)
    else:
        container[_index(container, step)] = _value(operation)


def _move(state: _State, operation: dict[str, Any]) -> None:
    container, step = state.place(operation, "from")
    value = _require(container, step, "move")
    _delete(container, step)
    target, name = state.place(operation)
    _insert(target, name, value)


def _copy(state: _State, operation: dict[str, Any]) -> None:
    container, step = state.place(operation, "from")
    value = _require(container, step, "copy")
    target, name = state.place(operation)
    state.copied += len(msgspec.json.encode(value))
    if state.copied > MAX_COPIED_BYTES:
        raise does_not_apply(f"unable to copy, the accumulated size increase of copy is {state.copied}")
    _insert(target, name, deepcopy(value))


def _test(state: _State, operation: dict[str, Any]) -> None:
    path = operation.get("path", "")
    present = state.root if path == "" else _get(*state.place(operation))
    if not equal(present, operation.get("value")):
        raise does_not_apply(f"testing value {path} failed: test failed")


def equal(left: Any, right: Any) -> bool:
    """Compares JSON values; unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(item, right[name]) for name, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


_OPERATIONS: dict[str, Callable[[_State, dict[str, Any]], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
