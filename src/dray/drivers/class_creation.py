"""Creation of the DeviceClasses that belong to drivers, where nobody has made them yet."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from dray.api.catalogue import built_in
from dray.client.api import ApiClient
from dray.client.errors import AlreadyExists
from dray.client.interface import WriteOptions
from dray.drivers.devices.classes import device_classes

_CLASSES: Final = built_in("resource.k8s.io/v1", "DeviceClass")
_MANAGER: Final = WriteOptions("dray-fleet", force=True)


async def make_plain_class(client: ApiClient, driver: str) -> None:
    """Creates a class named like the driver that selects all its devices, unless there is one."""
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
    named = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": driver}, "spec": spec}
    with suppress(AlreadyExists):
        await client.create(_CLASSES, named, options=_MANAGER)


async def make_classes(client: ApiClient, drivers: Iterable[str]) -> int:
    """The classes of these drivers that are not there yet; those that are stay as they are. Gives their number."""
    classes = device_classes(drivers)
    for class_ in classes:
        with suppress(AlreadyExists):
            await client.create(_CLASSES, class_, options=_MANAGER)
    return len(classes)
