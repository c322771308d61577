"""What a machine is told of its TPUs: accelerator, topology, number of chips.

The first source that names an accelerator counts: settings, the file tpu-env that the TPU runtime writes, the metadata
server of Google Cloud (the same things, and labels), labels of the Node. PCI fills in what none of them says.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from dray.api.catalogue import built_in
from dray.api.objects import labels_of
from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.driver import DriverError
from dray.drivers.devices.names import TPU
from dray.drivers.devices.tpu_generations import accelerator_of_type
from dray.drivers.tpu.options import TpuOptions

_NODES: Final = built_in("v1", "Node")
_LABELS: Final = {
    "accelerator": (f"{TPU}/accelerator", "cloud.google.com/gke-tpu-accelerator"),
    "topology": (f"{TPU}/topology", "cloud.google.com/gke-tpu-topology"),
    "count": (f"{TPU}/chip-count", "cloud.google.com/gke-accelerator-count"),
    "ici_resiliency": (f"{TPU}/ici-resiliency", "cloud.google.com/gke-tpu-ici-resiliency"),
}
_ATTRIBUTES: Final = "/computeMetadata/v1/instance/attributes"
_SECONDS: Final = 3.0
_logger = logging.getLogger(__name__)


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Description of the machine's TPUs; unknown values are empty or 0."""

    accelerator: str = ""
    topology: str = ""
    count: int = 0
    ici_resiliency: str = ""
    source: str = ""


NOTHING: Final = Description()


async def describe(options: TpuOptions, client: ApiClient, node: str, *, inspected: bool = False) -> Description:
    """Raises DriverError where the Node cannot be read: what it would say is not to be guessed, unless the driver is
    looked at and there is no cluster to ask."""
    if options.accelerator:
        return Description(
            accelerator=options.accelerator,
            topology=options.topology,
            ici_resiliency=options.ici_resiliency,
            source="settings",
        )
    found = _from_file(Path(options.tpu_env_file))
    if not found.accelerator and options.metadata_server and is_google(options.sysfs):
        found = await _from_metadata(options.metadata_server.rstrip("/"))
    if not found.accelerator:
        found = await _from_node(client, node, inspected)
    changes = {"topology": options.topology, "ici_resiliency": options.ici_resiliency}
    return msgspec.structs.replace(found, **{name: value for name, value in changes.items() if value})


def is_google(sysfs: Path) -> bool:
    """Whether the firmware says that this is a machine of Google Cloud."""
    try:
        return "google" in (sysfs / "class" / "dmi" / "id" / "product_name").read_text().lower()
    except (OSError, UnicodeDecodeError):
        return False


def from_labels(labels: Mapping[str, object], source: str) -> Description:
    found = {name: next((str(labels[key]) for key in keys if labels.get(key)), "") for name, keys in _LABELS.items()}
    count = found.pop("count")
    return Description(**found, count=int(count) if count.isascii() and count.isdecimal() else 0, source=source)


def from_tpu_env(text: str, source: str) -> Description:
    """Lines such as `TOPOLOGY: '2x4'`."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            values[key.strip()] = value.strip().strip("'\"")
    accelerator = accelerator_of_type(values.get("ACCELERATOR_TYPE") or values.get("TYPE") or "")
    bounds = [part.strip() for part in values.get("CHIPS_PER_HOST_BOUNDS", "").split(",")]
    count = math.prod(map(int, bounds)) if all(part.isascii() and part.isdecimal() for part in bounds) else 0
    return Description(
        accelerator=accelerator,
        topology=values.get("TOPOLOGY", ""),
        count=count,
        ici_resiliency=values.get("ENABLE_ICI_RESILIENCY", ""),
        source=source,
    )


def _from_file(path: Path) -> Description:
    try:
        return from_tpu_env(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError):
        return NOTHING


async def _from_metadata(server: str) -> Description:
    try:
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, headers={"Metadata-Flavor": "Google"}) as session:
            labels = await _attribute(session, f"{server}{_ATTRIBUTES}/kube-labels")
            pairs = dict(label.split("=", 1) for label in labels.split(",") if "=" in label)
            found = from_labels(pairs, f"kube-labels of {server}")
            if not found.accelerator:
                text = await _attribute(session, f"{server}{_ATTRIBUTES}/tpu-env")
                found = from_tpu_env(text, f"tpu-env of {server}")
            return found
    except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError) as error:
        _logger.warning("the metadata server %s does not answer (%s): its TPU attributes are not known", server, error)
        return NOTHING


async def _attribute(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        return await answer.text() if answer.status == 200 else ""


async def _from_node(client: ApiClient, node: str, inspected: bool) -> Description:
    try:
        async with asyncio.timeout(_SECONDS):
            return from_labels(labels_of(await client.get(_NODES, node)), f"labels of node {node}")
    except (ClientError, TimeoutError) as error:
        if inspected:
            return NOTHING
        raise DriverError(f"node {node} cannot be read, whose labels may tell of its TPUs: {error}") from error
