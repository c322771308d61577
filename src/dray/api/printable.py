"""Text that a terminal or a picture can show: control characters are written as escapes."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns the text with escapes such as `\\x1b` for line ends, control characters and marks of direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
