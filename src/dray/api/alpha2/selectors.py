"""Selectors of v1alpha2's named resources in the terms of v1.

There, `attributes.quantity["memory"]` looked into one map per type; here,
`device.capacity["driver"].memory` and `device.attributes["driver"].model` look into two maps per driver.
Slices of integers and strings have no counterpart.
"""

from __future__ import annotations

import re

_ACCESS = re.compile(
    r"""(?<![\w.])attributes\.(?P<type>bool|int|string|version|quantity)"""
    r"""(?:\[\s*["'](?P<quoted>[^"']+)["']\s*\]|\.(?P<bare>[A-Za-z_]\w*))"""
)
_MEMBERSHIP = re.compile(r"(?<![\w.])attributes\.(?P<type>bool|int|string|version|quantity)(?![\w.\[])")
_REMAINS = re.compile(r"(?<![\w.])attributes\.")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}\Z")


def translate(expression: str, driver: str) -> str | None:
    """The expression for v1, or None where it uses what v1 does not have."""
    names = [found["quoted"] or found["bare"] for found in _ACCESS.finditer(expression)]
    if not all(_IDENTIFIER.match(name) for name in names):
        return None
    translated = _ACCESS.sub(
        lambda found: f"{_domain(found['type'], driver)}.{found['quoted'] or found['bare']}", expression
    )
    translated = _MEMBERSHIP.sub(lambda found: _domain(found["type"], driver), translated)
    return None if _REMAINS.search(translated) else translated


def only_driver(driver: str) -> dict[str, dict[str, str]]:
    """The selector that stands for "devices of this driver"."""
    return selector(f'device.driver == "{driver}"')


def selector(expression: str) -> dict[str, dict[str, str]]:
    return {"cel": {"expression": expression}}


def _domain(type_name: str, driver: str) -> str:
    return f'device.{"capacity" if type_name == "quantity" else "attributes"}["{driver}"]'
