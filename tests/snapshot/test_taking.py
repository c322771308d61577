"""Taking a snapshot: all lists are of one moment if the server still has it, and refusals are kept."""

import json

import pytest

from dray.client.api import ApiClient
from dray.client.errors import ApiError
from dray.client.transport import Answer
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.snapshot.files import read, write
from dray.snapshot.listing import listed
from dray.snapshot.taking import take
from dray.snapshot.transport import SnapshotTransport
from dray.store.memory import MemoryStore
from dray.testing import objects
from dray.testing.cluster import kind_of


class Between:
    """A transport that does something after the first list, and answers for the server if `answer` does."""

    watch_seconds = 60.0

    def __init__(self, inner, after_first=None, answer=lambda request: None):
        self._inner, self._after_first, self._answer = inner, after_first, answer

    async def send(self, request):
        given = self._answer(request) or await self._inner.send(request)
        if request.path == "/api/v1/pods" and self._after_first is not None:
            after, self._after_first = self._after_first, None
            await after()
        return given

    async def close(self):
        pass


@pytest.fixture
async def transport():
    server = ApiServer(Context(MemoryStore()))
    await server.start()
    yield InProcessTransport(Application(server))
    await server.close()


def refusal(status, reason):
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": f"{reason} it is"}
    return Answer(status, {"content-type": "application/json"}, json.dumps(body).encode())


async def test_later_changes_are_in_no_list(transport):
    client = ApiClient(transport)

    async def change():
        await client.create(kind_of("Node"), objects.node("late"))

    await client.create(kind_of("Node"), objects.node("early"))
    taken = await take(ApiClient(Between(transport, change)), 1.0, "default")
    assert [each["metadata"]["name"] for each in taken.objects["v1", "Node"]] == ["early"]
    assert taken.header.consistent


async def test_a_version_that_the_server_no_longer_has_is_noted(transport):
    def forgets(request):
        return refusal(410, "Expired") if request.query.get("resourceVersionMatch") == "Exact" else None

    await ApiClient(transport).create(kind_of("Node"), objects.node("a"))
    taken = await take(ApiClient(Between(transport, answer=forgets)), 1.0, "default")
    assert len(taken.objects["v1", "Node"]) == 1
    assert not taken.header.consistent


async def test_what_may_not_be_read_is_refused_in_the_same_words(transport, tmp_path):
    def forbids(request):
        return refusal(403, "Forbidden") if request.path.endswith(("/podgroups", "/poddisruptionbudgets")) else None

    client = ApiClient(Between(transport, answer=forbids))
    write(await take(client, 1.0, "default"), tmp_path / "s")
    again = ApiClient(SnapshotTransport(read(tmp_path / "s")))
    live, stored = await listed(client), await listed(again)
    assert live.unread == stored.unread
    assert "PodDisruptionBudget" in stored.unread
    assert live.objects.keys() == stored.objects.keys()


async def test_a_snapshot_cannot_be_changed(transport, tmp_path):
    write(await take(ApiClient(transport), 1.0, "default"), tmp_path / "s")
    client = ApiClient(SnapshotTransport(read(tmp_path / "s")))
    with pytest.raises(ApiError, match="a snapshot cannot be changed"):
        await client.create(kind_of("Node"), objects.node("a"))
