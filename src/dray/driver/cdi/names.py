"""Names of CDI devices: `vendor/class=device`."""

from __future__ import annotations

import re
from typing import Final

from dray.driver.errors import InvalidSpec

_KIND_PART: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_DEVICE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)


def check_kind(kind: str) -> None:
    vendor, slash, class_ = kind.partition("/")
    if not slash or not _KIND_PART.fullmatch(vendor) or not _KIND_PART.fullmatch(class_):
        raise InvalidSpec(
            f"kind {kind!r}: must be vendor/class, each of letters, digits, '_', '.' and '-', "
            "starting with a letter and ending with a letter or digit"
        )


def check_device_name(name: str) -> None:
    if not _DEVICE.fullmatch(name):
        raise InvalidSpec(
            f"device name {name!r}: must be of letters, digits, '_', '.', ':' and '-', "
            "starting and ending with a letter or digit"
        )


def check_qualified(name: str) -> None:
    kind, _, device = name.partition("=")
    check_kind(kind)
    check_device_name(device)


def qualified(kind: str, device: str) -> str:
    return f"{kind}={device}"
