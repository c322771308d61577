"""Environment variables that list the devices of a container, such as CUDA_VISIBLE_DEVICES.

CDI merges the edits of devices, and of a variable that several devices set the last value wins. A device with such an
annotation adds one value to the list; dray's node agent joins the values of all devices of a container with commas, in
the order of the devices. Other runtimes ignore the annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_PREFIX: Final = "joined.dray.dev/"


def device_annotations(values: Mapping[str, str]) -> dict[str, str]:
    """Returns the annotations of a CDI device that adds these values to the variables."""
    return {f"{_PREFIX}{name}": value for name, value in values.items()}


def joined(devices: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Returns the variables of a container whose devices have these annotations."""
    values: dict[str, list[str]] = {}
    for device in devices:
        for name, value in device.items():
            if name.startswith(_PREFIX):
                values.setdefault(name.removeprefix(_PREFIX), []).append(value)
    return {name: ",".join(dict.fromkeys(parts)) for name, parts in values.items()}
