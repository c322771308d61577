"""What a field selector holds fast: the one value that a field of every selected object has."""

from __future__ import annotations

from dray.server import field_selectors


def pinned(field_selector: str, field: str) -> str:
    """Empty where the selector leaves the field open."""
    if not field_selector:
        return ""
    return next((value for name, equal, value in field_selectors.parse(field_selector) if equal and name == field), "")
