"""What nodes and pods use: the node's own documents, metrics.k8s.io, and kubectl top."""

from __future__ import annotations

import asyncio
import json
import re

from dray.api.catalogue import built_in
from tests.node.server.conftest import NODE, pod

BUSY = "while :; do :; done"
METRICS = "/apis/metrics.k8s.io/v1beta1"
PROXY = f"/api/v1/nodes/{NODE}/proxy"


async def used(machine, name):
    """The usage of its first container, once it has used a processor."""
    async with asyncio.timeout(20):
        while True:
            code, text = await machine.get(f"{METRICS}/namespaces/default/pods/{name}")
            if code == 200 and int((found := json.loads(text))["containers"][0]["usage"]["cpu"][:-1]):
                return found
            await asyncio.sleep(0.05)


async def test_usage_of_pods_and_nodes(machine):
    await machine.create(pod("busy", BUSY))
    await machine.create(pod("idle", "sleep 1000"))
    found = await used(machine, "busy")
    assert found["kind"] == "PodMetrics"
    assert found["metadata"]["name"] == "busy"
    assert int(found["containers"][0]["usage"]["memory"][:-2]) > 100
    code, text = await machine.get(f"{METRICS}/pods", labelSelector="app=idle")
    assert [each["metadata"]["name"] for each in json.loads(text)["items"]] == ["idle"]
    code, text = await machine.get(f"{METRICS}/nodes")
    (node,) = json.loads(text)["items"]
    assert (code, node["metadata"]["name"]) == (200, NODE)
    assert int(node["usage"]["cpu"][:-1]) > 0
    assert (await machine.get(f"{METRICS}/nodes/none"))[0] == 404
    assert (await machine.get(f"{METRICS}/namespaces/default/pods/none"))[0] == 404
    assert (await machine.get(f"{METRICS}/claims"))[0] == 404


async def test_a_node_that_is_away_has_no_usage(machine):
    await machine.make("v1", "Node", "away", {"metadata": {"name": "away"}})
    code, text = await machine.get(f"{METRICS}/nodes/away")
    assert (code, json.loads(text)["message"]) == (404, 'nodemetrics.metrics.k8s.io "away" not found')


async def test_the_nodes_own_documents(machine):
    await machine.create(pod("p", BUSY))
    await used(machine, "p")
    code, text = await machine.get(f"{PROXY}/stats/summary")
    summary = json.loads(text)
    assert (code, summary["node"]["nodeName"]) == (200, NODE)
    (told,) = summary["pods"]
    assert told["podRef"]["name"] == "p"
    assert told["containers"][0]["cpu"]["usageCoreNanoSeconds"] > 0
    assert await machine.get(f"{PROXY}/healthz") == (200, "ok")
    node = (await machine.client.get(built_in("v1", "Node"), NODE))["status"]
    port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    assert await machine.get(f"{PROXY}/healthz".replace(NODE, f"{NODE}:{port}")) == (200, "ok")
    assert (await machine.get(f"{PROXY}/healthz".replace(NODE, f"{NODE}:1")))[0] == 400
    assert json.loads((await machine.get(f"{PROXY}/pods"))[1])["items"][0]["metadata"]["name"] == "p"
    _, text = await machine.get(f"{PROXY}/metrics/resource")
    assert re.search(r'^container_cpu_usage_seconds_total\{container="c0",namespace="default",pod="p"\} \d', text, re.M)
    assert re.search(r"^node_memory_working_set_bytes \d", text, re.M)
    _, text = await machine.get(f"{PROXY}/metrics")
    assert "dra_operations_duration_seconds" in text
    assert (await machine.get(f"{PROXY}/none"))[0] == 404
    assert (await machine.get(f"{PROXY}/exec/default/p/c0", command="ls"))[0] == 400


async def test_rights(machine):
    for path in (f"{METRICS}/nodes", f"{METRICS}/pods", f"{PROXY}/healthz"):
        async with machine.http.get(path, headers={"Impersonate-User": "somebody"}) as answer:
            assert answer.status == 403


async def test_kubectl_top(machine):
    await machine.create(pod("p", BUSY, "sleep 1000"))
    await used(machine, "p")
    code, output, errors = await machine.kubectl("top", "pods")
    assert (code, errors) == (0, "")
    assert re.fullmatch(r"NAME +CPU\(cores\) +MEMORY\(bytes\) +\np +[1-9]\d*m +\d+Mi +\n", output)
    code, output, _ = await machine.kubectl("top", "pods", "--containers", "--no-headers")
    assert [line.split()[:2] for line in output.splitlines()] == [["p", "c0"], ["p", "c1"]]
    code, output, errors = await machine.kubectl("top", "nodes", "--no-headers")
    assert (code, errors) == (0, "")
    assert re.fullmatch(rf"{NODE} +\d+m +\d+% +\d+Mi +\d+% +\n", output)
