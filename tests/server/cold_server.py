"""A server that has asked no node for anything yet, and a machine on which loading the HTTP client takes long.

The first log of a pod is asked for, which needs the client. The client is loaded only once somebody else has been
answered in the meantime; prints whether that was so before the patience of 5 s ended.
"""

import asyncio
import sys
import threading

import msgspec

from dray.client.transport import Request
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.memory import MemoryStore

PODS = "/api/v1/namespaces/default/pods"
HEADERS = {"accept": "application/json", "content-type": "application/json"}
# Nobody listens on port 1: that the log cannot be had is told after the client was loaded.
ADDRESSES = {
    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
}


class SlowLoading:
    def __init__(self):
        self.begun, self.others, self.waited = threading.Event(), threading.Event(), None

    def find_spec(self, name, path=None, target=None):
        if name == "aiohttp":
            self.begun.set()
            self.waited = self.others.wait(5)


async def main():
    assert "aiohttp" not in sys.modules
    loading = SlowLoading()
    server = ApiServer(Context(MemoryStore()))
    await server.start()
    transport = InProcessTransport(Application(server))

    async def ask(method, path, body=None):
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await transport.send(Request(method, path, {}, HEADERS, data))
        return answer.status, msgspec.json.decode(answer.body).get("message")

    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": ADDRESSES}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    assert await ask("POST", "/api/v1/nodes", node) == (201, None)
    assert await ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}) == (
        201,
        None,
    )
    sys.meta_path.insert(0, loading)
    log = asyncio.create_task(ask("GET", f"{PODS}/p/log"))
    while not loading.begun.is_set():
        await asyncio.sleep(0.01)
    assert await ask("GET", f"{PODS}/p") == (200, None)
    loading.others.set()
    told = await log
    print(loading.waited, *told)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main())
