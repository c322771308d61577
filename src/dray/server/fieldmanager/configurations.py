"""Applied configurations are checked: unknown fields, wrong shapes and duplicate items are refused."""

from __future__ import annotations

from typing import Any

from dray.api.catalogue import split_api_version
from dray.api.objects import Object, mapping, text
from dray.server.fieldmanager import path_elements
from dray.server.fieldmanager.field_types import FieldType, Form, Item
from dray.server.status import bad_request

Path = tuple[str, ...]

_EXPECTED = {Form.OBJECT: (dict, "map"), Form.SET: (list, "list"), Form.KEYED: (list, "list")}
_HELD: dict[Item, tuple[type | tuple[type, ...], str]] = {
    Item.LIST: (list, "list"),
    Item.OBJECT: (dict, "map"),
    Item.PLAIN: ((str, int, float, bool), "scalar"),
}


class _Misfit(Exception):
    """Raised with the path at which a configuration does not fit its type, and the reason."""


def check(kind: FieldType, configuration: Object) -> None:
    """Raises an error for the first field that does not fit the type."""
    try:
        _check(kind, configuration, ())
    except _Misfit as misfit:
        raise bad_request(f"failed to create typed patch object ({_title(configuration)}): {misfit}") from None


def _title(configuration: Object) -> str:
    metadata = mapping(configuration.get("metadata"))
    group, version = split_api_version(text(configuration.get("apiVersion")))
    place = f"{text(metadata.get('namespace'))}/{text(metadata.get('name'))}"
    return f"{place}; {group}/{version}, Kind={text(configuration.get('kind'))}"


def _check(kind: FieldType, document: Any, path: Path) -> None:
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
            _check(member, value, here)
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
            keys = " ".join(f'"{key}"' for key in kind.keys)
            detail = f"associative list with keys has an element that omits all key fields [{keys}]"
            raise _refuse(path, f"element {index}: {detail} (and doesn't have default values for any key fields)")
        here = (*path, step)
        if step in seen:
            raise _refuse(path, f"duplicate entries for key {path_elements.render((step,))}")
        seen.add(step)
        if kind.items is not None:
            _check(kind.items, item, here)


def _refuse(path: Path, detail: str) -> _Misfit:
    return _Misfit(f"{path_elements.render(path) or '.'}: {detail}")
