import asyncio

import pytest

from dray.api.catalogue import find
from dray.client.discovery import OptionalInformer, discover, served_version
from dray.client.errors import ApiError, ConnectionFailed, Garbled
from dray.client.retries import Retries
from dray.testing.cluster import LocalCluster
from tests.controllers.devices import rule

GROUP = "resource.k8s.io"


class Server:
    """Answers discovery with these versions of these resources."""

    def __init__(self, **served):
        self.served = served
        self.asked = []
        self.faults = []

    async def request(self, method, path, **_):
        self.asked.append(path)
        if self.faults:
            raise self.faults.pop()
        version = path.rpartition("/")[2]
        if version not in self.served:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return {"kind": "APIResourceList", "resources": [{"name": name} for name in self.served[version]]}


@pytest.mark.parametrize(
    ("served", "found"),
    [
        ({"v1": ["devicetaintrules"], "v1beta2": ["devicetaintrules"]}, "v1"),
        ({"v1": ["resourceclaims"], "v1beta2": ["resourceclaims", "devicetaintrules"]}, "v1beta2"),
        ({"v1": ["resourceclaims"], "v1alpha3": ["devicetaintrules"]}, "v1alpha3"),
        ({"v1": ["resourceclaims"]}, None),
        ({}, None),
    ],
)
async def test_the_newest_version_that_is_served(served, found):
    version = await served_version(Server(**served), GROUP, "devicetaintrules")
    assert (version and version.version) == found


async def test_the_versions_can_be_chosen():
    server = Server(v1=["devicetaintrules"], v1beta2=["devicetaintrules"])
    version = await served_version(server, GROUP, "devicetaintrules", ["v1beta2", "v1"])
    assert version is find("resource.k8s.io/v1beta2", "DeviceTaintRule")
    assert server.asked == ["/apis/resource.k8s.io/v1beta2"]


async def test_the_core_group():
    server = Server(v1=["pods"])
    assert await served_version(server, "", "pods") is find("v1", "Pod")
    assert server.asked == ["/api/v1"]


async def test_no_answer_is_not_no():
    server = Server()
    server.faults = [ConnectionFailed("refused", sent=False)]
    with pytest.raises(ConnectionFailed):
        await served_version(server, GROUP, "devicetaintrules")
    server.faults = [ApiError(403, "Forbidden", "no")]
    with pytest.raises(ApiError):
        await served_version(server, GROUP, "devicetaintrules")


async def test_an_informer_of_what_is_served_later(caplog):
    server = Server()
    server.faults = [ConnectionFailed("refused", sent=False), ApiError(503, "ServiceUnavailable", "not yet")]
    waited = []

    async def sleep(seconds):
        waited.append(seconds)
        await asyncio.sleep(0)

    async with LocalCluster(controllers=["device-taint-eviction"]) as cluster:
        seen = []
        informer = OptionalInformer(
            server, cluster.environment.informers, GROUP, "devicetaintrules", retries=Retries(sleep=sleep)
        )
        informer.add_handler(lambda change: seen.append(change.key))
        await informer.start()
        assert len(waited) == 2
        assert (informer.version, list(informer.cache)) == (None, [])

        await cluster.create(rule("r"))
        server.served["v1"] = ["devicetaintrules"]
        task = asyncio.create_task(informer.run())
        while not seen:
            await asyncio.sleep(0.001)
        task.cancel()
        assert set(seen) == {("", "r")}
        assert informer.cache.get("r") is not None
        assert waited[2:] == [600.0]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_discovery_finds_each_resource_once_in_its_preferred_version():
    async with LocalCluster() as cluster:
        found = await discover(cluster.client)
    assert not found.failed
    preferred = list(found.preferred)
    assert len(preferred) == len({each.qualified for each in preferred})
    claims = next(each for each in preferred if each.plural == "resourceclaims")
    assert (claims.api_version, claims.namespaced, claims.kind) == ("resource.k8s.io/v1", True, "ResourceClaim")
    assert {"delete", "list", "watch"} <= claims.verbs
    assert [each.version for each in found.resources if each.plural == "resourceclaims"][:2] == ["v1", "v1beta2"]
    assert not any("/" in each.plural for each in found.resources)


async def test_a_group_whose_server_is_down_is_told():
    def group(name, freshness):
        kind = {"group": name, "version": "v1", "kind": "Thing"}
        things = {"resource": "things", "responseKind": kind, "scope": "Namespaced", "verbs": ["list"]}
        return {
            "metadata": {"name": name},
            "versions": [{"version": "v1", "freshness": freshness, "resources": [things]}],
        }

    class Half:
        async def request(self, method, path, **rest):
            items = [group("down.example.com", "Stale"), group("up.example.com", "Current")] if path == "/apis" else []
            return {"kind": "APIGroupDiscoveryList", "items": items}

    found = await discover(Half())
    assert [each.qualified for each in found.resources] == ["things.up.example.com"]
    assert found.failed == {"down.example.com": "stale GroupVersion discovery: down.example.com/v1"}


async def test_a_server_that_knows_the_plain_form_only_is_said_to_be_too_old():
    class Old:
        async def request(self, method, path, **rest):
            return {"kind": "APIVersions", "versions": ["v1"]}

    with pytest.raises(Garbled, match=r"since 1\.27"):
        await discover(Old())
