"""Applied configurations are checked: unknown fields, wrong shapes and duplicate items are refused."""

from __future__ import annotations

from typing import Any

from dray.server.fieldmanager import path_elements
from dray.server.fieldmanager.field_types import FieldType, Form, Item
from dray.server.status import ApiError, bad_request

Path = tuple[str, ...]

_EXPECTED = {Form.OBJECT: (dict, "map"), Form.SET: (list, "list"), Form.KEYED: (list, "list")}
_HELD: dict[Item, tuple[type | tuple[type, ...], str]] = {
    Item.LIST: (list, "list"),
    Item.OBJECT: (dict, "map"),
    Item.PLAIN: ((str, int, float, bool), "scalar"),
}


def check(kind: FieldType, document: Any, path: Path = ()) -> None:
    """Raises on the first field that does not fit the type."""
    if document is None or kind.form is Form.DEDUCED:
        return
    if kind.form is Form.LEAF:
        _check_form(document, _HELD.get(kind.holds), path)
        return
    _check_form(document, _EXPECTED[kind.form], path)
    if kind.form is Form.OBJECT:
        for name, value in document.items():
            here = (*path, path_elements.member(name))
            member = kind.member(name)
            if member is None:
                raise _refuse(here, "field not declared in schema")
            check(member, value, here)
    else:
        _check_items(kind, document, path)


def _check_form(document: Any, expected: tuple[type | tuple[type, ...], str] | None, path: Path) -> None:
    if expected is not None and not isinstance(document, expected[0]):
        raise _refuse(path, f"expected {expected[1]}")


def _check_items(kind: FieldType, items: list[Any], path: Path) -> None:
    seen = set()
    for index, item in enumerate(items):
        step = kind.step(item)
        if step is None:
            raise _refuse((*path, f"i:{index}"), f"the item omits all key fields {list(kind.keys)}")
        here = (*path, step)
        if step in seen:
            raise _refuse(path, f"duplicate entries for key {path_elements.render((step,))}")
        seen.add(step)
        if kind.items is not None:
            check(kind.items, item, here)


def _refuse(path: Path, detail: str) -> ApiError:
    return bad_request(f"failed to create typed patch object: {path_elements.render(path) or '.'}: {detail}")
