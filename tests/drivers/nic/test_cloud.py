"""Attributes of clouds, from a server that answers as their metadata servers do."""

import json
import time

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from dray.drivers.devices.nic import Nic
from dray.drivers.nic.cloud import cloud_attributes

NIC = Nic(interface="eth1", mac="42:01:c0:a8:01:02", rdma_device="erdma_0")
INTERFACES = [
    {"mac": "42:01:0a:80:00:46", "network": "projects/1/networks/default", "ipAliases": ["10.24.3.0/24"]},
    {"mac": "42:01:c0:a8:01:02", "network": "projects/628944397724/networks/rdma-0", "ipAliases": []},
]
ISLAND = "ocid1.hpcisland.oc1.iad." + "a" * 60
ANSWERS = {
    "/computeMetadata/v1/instance/machine-type": "projects/1/machineTypes/a3-ultragpu-8g",
    "/computeMetadata/v1/instance/network-interfaces/": json.dumps(INTERFACES),
    "/computeMetadata/v1/instance/attributes/physical_host": "/block/sub/host",
    "/metadata/instance/compute": json.dumps({"vmSize": "Standard_ND96isr_H100_v5", "placementGroupId": ""}),
    "/opc/v2/host/": json.dumps({"rackId": "rack.7", "rdmaTopologyData": {"customerHPCIslandId": ISLAND}}),
    "/latest/meta-data/instance/instance-type": "ecs.ebmgn8v.48xlarge",
}
EXPECTED = {
    "gce": {
        "gce.dra.net/machineType": "a3-ultragpu-8g",
        "gce.dra.net/block": "block",
        "gce.dra.net/subBlock": "sub",
        "gce.dra.net/host": "host",
        "gce.dra.net/networkProjectNumber": 628944397724,
        "gce.dra.net/networkName": "rdma-0",
    },
    "azure": {"azure.dra.net/vmSize": "Standard_ND96isr_H100_v5"},
    "oke": {"oke.dra.net/hpcIslandId": "a" * 60, "oke.dra.net/rackId": "7"},
    "alibaba": {"alibaba.dra.net/instanceType": "ecs.ebmgn8v.48xlarge", "alibaba.dra.net/erdma": True},
}
HEADERS = ("Metadata-Flavor", "Metadata", "Authorization", "X-aliyun-ecs-metadata-token")


async def answer(request):
    if request.method == "PUT":
        return web.Response(text="token")
    told = any(name in request.headers for name in HEADERS)
    return web.Response(text=ANSWERS.get(request.path, ""), status=200 if told and request.path in ANSWERS else 404)


@pytest.mark.parametrize("provider", EXPECTED)
async def test_each_cloud_gives_its_attributes(provider):
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server:
        attributes = await cloud_attributes(provider, str(server.make_url("")).rstrip("/"))
    found = {name: value for name, value in attributes(NIC).items() if value not in ("", None)}
    assert found == EXPECTED[provider]


async def test_nobody_that_answers_is_nobody_that_is_waited_for():
    began = time.monotonic()
    attributes = await cloud_attributes("auto", "http://127.0.0.1:9")
    assert attributes(NIC) == {}
    assert time.monotonic() - began < 5
    assert (await cloud_attributes("none", ""))(NIC) == {}
