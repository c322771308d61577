"""Attributes that the metadata server of a cloud knows about the machine and its interfaces.

It is asked only if an option says so, once, with short time-outs; where nobody answers there are no such attributes.
AWS is not among them: its published attributes are those of Neuron machines, which need a library of theirs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from dray.drivers.devices.attributes import Value
from dray.drivers.devices.nic import Nic
from dray.drivers.nic.options import Cloud

_logger = logging.getLogger(__name__)
_SECONDS: Final = 2.0
_LINK_LOCAL: Final = "http://169.254.169.254"
_ALIBABA: Final = "http://100.100.100.200"
_GCE_NETWORK: Final = re.compile(r"projects/(\d+)/networks/(\S+)")
_LONGEST_VALUE: Final = 64

Attributes = Callable[[Nic], Mapping[str, Value]]


def _nothing(_: Nic) -> Mapping[str, Value]:
    return {}


async def cloud_attributes(provider: Cloud, server: str) -> Attributes:
    """Returns a function that adds a cloud's attributes to an interface. Never raises; waits two seconds at most."""
    known = {"gce": _gce, "azure": _azure, "oke": _oke, "alibaba": _alibaba}
    asked = known if provider == "auto" else {name: ask for name, ask in known.items() if name == provider}
    found = await asyncio.gather(*(_asked(name, ask, server) for name, ask in asked.items()))
    return next((attributes for attributes in found if attributes is not _nothing), _nothing)


async def _asked(name: str, ask: Callable[[Any, str], Any], server: str) -> Attributes:
    import aiohttp

    try:
        async with asyncio.timeout(_SECONDS), aiohttp.ClientSession() as session:
            made: Attributes = await ask(session, server)
            return made
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _logger.info("metadata of %s: %s: %s", name, type(error).__name__, error)
        return _nothing


async def _text(session: Any, url: str, headers: Mapping[str, str], *, optional: bool = False) -> str:
    async with session.get(url, headers=headers) as answer:
        if answer.status != 200:
            if optional:
                return ""
            raise ValueError(f"{url} answers {answer.status}")
        return str(await answer.text())


async def _gce(session: Any, server: str) -> Attributes:
    root, headers = f"{server or _LINK_LOCAL}/computeMetadata/v1/instance", {"Metadata-Flavor": "Google"}
    machine = (await _text(session, f"{root}/machine-type", headers)).strip().rpartition("/")[2]
    listed = json.loads(await _text(session, f"{root}/network-interfaces/?recursive=true&alt=json", headers))
    host = (await _text(session, f"{root}/attributes/physical_host", headers, optional=True)).strip()
    common: dict[str, Value] = {"gce.dra.net/machineType": machine}
    places = host.strip("/").split("/") if host else []
    if len(places) == 3:
        names = ("gce.dra.net/block", "gce.dra.net/subBlock", "gce.dra.net/host")
        common |= dict(zip(names, places, strict=True))
    by_mac = {str(interface.get("mac", "")).lower(): interface for interface in listed}

    def of(nic: Nic) -> Mapping[str, Value]:
        found = by_mac.get(nic.mac) if nic.mac else None
        return {**common, **(_gce_interface(found) if found else {})}

    return of


def _gce_interface(listed: Mapping[str, Any]) -> dict[str, Value]:
    found: dict[str, Value] = {"gce.dra.net/ipAliases": ",".join(listed.get("ipAliases") or ())[:_LONGEST_VALUE]}
    network = _GCE_NETWORK.fullmatch(str(listed.get("network", "")))
    if network:
        found |= {"gce.dra.net/networkProjectNumber": int(network[1]), "gce.dra.net/networkName": network[2]}
    return found


async def _azure(session: Any, server: str) -> Attributes:
    url = f"{server or _LINK_LOCAL}/metadata/instance/compute?api-version=2025-11-11&format=json"
    compute = json.loads(await _text(session, url, {"Metadata": "true"}))
    names = ("placementGroupId", "vmSize", "interconnectGroupId", "interconnectSubgroupId")
    common: dict[str, Value] = {f"azure.dra.net/{name}": str(compute.get(name) or "") for name in names}
    return lambda _: common


async def _oke(session: Any, server: str) -> Attributes:
    url, headers = f"{server or _LINK_LOCAL}/opc/v2/host/", {"Authorization": "Bearer Oracle"}
    host = json.loads(await _text(session, url, headers))
    fabric = host.get("rdmaTopologyData") or {}
    values = {
        "hpcIslandId": fabric.get("customerHPCIslandId"),
        "networkBlockId": fabric.get("customerNetworkBlock") or host.get("networkBlockId"),
        "localBlockId": fabric.get("customerLocalBlock"),
        "rackId": host.get("rackId") or fabric.get("customerHostId"),
        "gpuMemoryFabricId": fabric.get("customerGpuMemoryFabric"),
    }
    # An identifier of Oracle is longer than an attribute may be; what is behind its last dot tells it from others.
    common: dict[str, Value] = {
        f"oke.dra.net/{name}": str(value).rpartition(".")[2][-60:] for name, value in values.items() if value
    }
    return lambda _: common


async def _alibaba(session: Any, server: str) -> Attributes:
    root = f"{server or _ALIBABA}/latest"
    async with session.put(f"{root}/api/token", headers={"X-aliyun-ecs-metadata-token-ttl-seconds": "600"}) as answer:
        if answer.status != 200:
            raise ValueError(f"{root}/api/token answers {answer.status}")
        token = (await answer.text()).strip()
    headers = {"X-aliyun-ecs-metadata-token": token}
    machine = (await _text(session, f"{root}/meta-data/instance/instance-type", headers)).strip()

    def of(nic: Nic) -> Mapping[str, Value]:
        erdma = {"alibaba.dra.net/erdma": True} if nic.rdma_device.startswith("erdma") else {}
        return {"alibaba.dra.net/instanceType": machine, **erdma}

    return of
