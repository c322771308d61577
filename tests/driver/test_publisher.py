"""Slices as they are declared: published, changed, repaired, withdrawn, on a real API server in process."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from dray.api.gates import ALL_GATES
from dray.api.objects import Object
from dray.driver import Device, NodeSelection, Pool, Taint, Version
from dray.testing.cluster import LocalCluster
from dray.testing.objects import node, resource_slice
from tests.driver.independent import Plugin
from tests.driver.node import NAME, Lamps, Node


class Pools(Lamps):
    """Declares `declared`."""

    def __init__(self, *pools: Pool) -> None:
        super().__init__()
        self.declared: Sequence[Pool] = pools

    async def pools(self) -> Sequence[Pool]:
        return self.declared


def many(count: int, **members: Any) -> list[Device]:
    return [Device(f"lamp-{number:05}", **members) for number in range(count)]


async def slices(cluster: LocalCluster) -> list[Object]:
    return sorted(await cluster.list("ResourceSlice"), key=lambda each: str(each["metadata"]["name"]))


def shapes(found: list[Object]) -> list[tuple[int, int, int, int]]:
    """Generation, count, devices and counter sets of each."""
    return [
        (
            each["spec"]["pool"]["generation"],
            each["spec"]["pool"]["resourceSliceCount"],
            len(each["spec"].get("devices") or ()),
            len(each["spec"].get("sharedCounters") or ()),
        )
        for each in found
    ]


def shaped(cluster: LocalCluster, *expected: tuple[int, int, int, int]) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return shapes(await slices(cluster)) == list(expected)

    return holds


async def test_a_pool_is_published_for_the_node_and_stays_when_the_driver_ends(kubelet_node: Node) -> None:
    cluster, driver = kubelet_node.cluster, Lamps(1)
    driver.lamps = [
        Device("lamp-0", {"color": "red", "watts": 40, "on": False, "rev": Version("1.2.3")}, {"light": "1024Mi"})
    ]
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
    (found,) = await slices(cluster)
    owner = await cluster.get("Node", "node-1")
    assert owner is not None
    assert found["metadata"]["name"].startswith("00000-lamps.example.com-node-1-")
    assert found["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": owner["metadata"]["uid"], "controller": True}
    ]
    assert found["spec"] == {
        "driver": NAME,
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-1",
        "devices": [
            {
                "name": "lamp-0",
                "attributes": {
                    "color": {"string": "red"},
                    "watts": {"int": 40},
                    "on": {"bool": False},
                    "rev": {"version": "1.2.3"},
                },
                "capacity": {"light": {"value": "1Gi"}},
            }
        ],
    }
    # Nothing is written for what is there.
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
    assert await slices(cluster) == [found]


async def test_pools_are_split_at_the_limits(kubelet_node: Node) -> None:
    sets = {f"set-{number}": {"slots": 1} for number in range(9)}
    consuming = many(70, consumes_counters={"set-0": {"slots": 1}})
    driver = Pools(Pool("plain", many(200)), Pool("counted", consuming, counters=sets), Pool("empty"))
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
    found = await slices(kubelet_node.cluster)
    by_pool = {
        name: shapes([each for each in found if each["spec"]["pool"]["name"] == name])
        for name in ("plain", "counted", "empty")
    }
    assert by_pool == {
        "plain": [(1, 2, 128, 0), (1, 2, 72, 0)],
        "counted": [(1, 4, 0, 8), (1, 4, 0, 1), (1, 4, 64, 0), (1, 4, 6, 0)],
        "empty": [(1, 1, 0, 0)],
    }
    assert [each["metadata"]["name"][:6] for each in found if each["spec"]["pool"]["name"] == "counted"] == [
        "00000-",
        "00001-",
        "00002-",
        "00003-",
    ]


async def test_generations_change_only_when_a_part_could_be_mistaken_for_the_whole(kubelet_node: Node) -> None:
    cluster, driver = kubelet_node.cluster, Pools(Pool("p", many(200)))
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
        names = [each["metadata"]["name"] for each in await slices(cluster)]

        async def declare(devices: list[Device]) -> list[tuple[int, int, int, int]]:
            driver.declared = [Pool("p", devices)]
            runner.publish()
            await runner.publisher.published()
            return shapes(await slices(cluster))

        lamps = many(201)
        # One slice changes: a device more in the second.
        assert await declare(lamps) == [(1, 2, 128, 0), (1, 2, 73, 0)]
        # A device less in the first: the others stay where they are.
        assert await declare(lamps[1:]) == [(1, 2, 127, 0), (1, 2, 73, 0)]
        assert [each["metadata"]["name"] for each in await slices(cluster)] == names
        # Both change.
        assert await declare(lamps[2:-1]) == [(2, 2, 126, 0), (2, 2, 72, 0)]
        # A slice more.
        assert await declare(many(300)) == [(3, 3, 128, 0), (3, 3, 128, 0), (3, 3, 44, 0)]
        assert await declare(many(100)) == [(3, 1, 100, 0)]


async def test_what_somebody_deletes_or_edits_is_repaired(kubelet_node: Node) -> None:
    cluster, driver = kubelet_node.cluster, Pools(Pool("p", many(3)))
    async with kubelet_node.running(driver, repair_delay=0.05) as runner:
        await runner.publisher.published()
        (first,) = await slices(cluster)
        await cluster.delete("ResourceSlice", first["metadata"]["name"])
        await cluster.eventually(shaped(cluster, (1, 1, 3, 0)))
        (second,) = await slices(cluster)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        await cluster.patch("ResourceSlice", second["metadata"]["name"], {"spec": {"devices": [{"name": "foreign"}]}})

        async def repaired() -> bool:
            return [each["spec"]["devices"] for each in await slices(cluster)] == [first["spec"]["devices"]]

        await cluster.eventually(repaired)
        # A foreign slice in the pool is removed.
        intruder = resource_slice("intruder", "x", driver=NAME, pool="p", generation=9, nodeName="node-1")
        await cluster.create(intruder)
        await cluster.eventually(shaped(cluster, (10, 1, 3, 0)))


async def test_a_repair_waits_for_the_end_of_a_wipe(kubelet_node: Node) -> None:
    cluster = kubelet_node.cluster
    async with kubelet_node.running(Pools(Pool("p", many(3)))) as runner:
        await runner.publisher.published()
        (first,) = await slices(cluster)
        await cluster.delete("ResourceSlice", first["metadata"]["name"])
        # By default half a minute, unless the driver publishes.
        runner.publish()
        await cluster.eventually(shaped(cluster, (1, 1, 3, 0)))


async def test_a_kubelet_that_has_registered_the_driver_wipes_no_more(kubelet_node: Node) -> None:
    """Its deletions may be seen before it registers the driver, and after."""
    cluster = kubelet_node.cluster
    async with kubelet_node.running(Pools(Pool("p", many(3)))) as runner:
        await runner.publisher.published()
        async with Plugin(runner.options.registration_socket(NAME)) as registrar:
            for _ in range(2):
                (each,) = await slices(cluster)
                await cluster.delete("ResourceSlice", each["metadata"]["name"])
                await registrar.call("pluginregistration.Registration/NotifyRegistrationStatus", plugin_registered=True)
                await cluster.eventually(shaped(cluster, (1, 1, 3, 0)))
            (each,) = await slices(cluster)
            await cluster.delete("ResourceSlice", each["metadata"]["name"])
            await cluster.eventually(shaped(cluster, (1, 1, 3, 0)))


async def test_stale_slices_of_this_driver_and_node_are_removed_at_the_start_and_others_are_not(
    kubelet_node: Node,
) -> None:
    cluster = kubelet_node.cluster
    for name, members in {
        "gone-pool": {"nodeName": "node-1"},
        "old-style": {"nodeName": "node-1", "pool": "p", "generation": 4},
        "other-node": {"nodeName": "node-2"},
        "all-nodes": {},
    }.items():
        await cluster.create(resource_slice(name, "lamp", driver=NAME, **members))
    await cluster.create(resource_slice("other-driver", "lamp", driver="other.example.com", nodeName="node-1"))
    async with kubelet_node.running(Pools(Pool("p", many(1)))) as runner:
        await runner.publisher.published()
    found = [each["metadata"]["name"] for each in await slices(cluster)]
    assert found[1:] == ["all-nodes", "other-driver", "other-node"]
    assert found[0].startswith("00000-")
    assert (await slices(cluster))[0]["spec"]["pool"]["generation"] == 5


async def test_pools_for_other_nodes(kubelet_node: Node) -> None:
    cluster = kubelet_node.cluster
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    each_own = [Device("a", nodes=NodeSelection(node_name="node-1")), Device("b", nodes=NodeSelection(all_nodes=True))]
    pools = [
        Pool("everywhere", many(1), nodes=NodeSelection(all_nodes=True)),
        Pool("zone", many(1), nodes=NodeSelection(node_selector=term)),
        Pool("each", each_own, per_device_node_selection=True),
        Pool("here", many(1)),
    ]
    await cluster.create(resource_slice("foreign", "lamp", driver=NAME))
    driver = Pools(*pools)
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
        found = {each["spec"]["pool"]["name"]: each["spec"] for each in await slices(cluster)}
        assert found["everywhere"]["allNodes"] is True
        assert found["zone"]["nodeSelector"] == term
        assert found["each"]["perDeviceNodeSelection"] is True
        assert [device.get("nodeName") for device in found["each"]["devices"]] == ["node-1", None]
        assert found["here"]["nodeName"] == "node-1"
        driver.declared = pools[3:]
        runner.publish()
        await runner.publisher.published()
        assert sorted(each["spec"]["pool"]["name"] for each in await slices(cluster)) == ["foreign", "here"]


async def test_a_driver_without_node_publishes_and_serves_no_socket(kubelet_node: Node) -> None:
    driver = Pools(Pool("cloud", many(2), nodes=NodeSelection(all_nodes=True)))
    async with kubelet_node.running(driver, node_name="") as runner:
        await runner.publisher.published()
        (found,) = await slices(kubelet_node.cluster)
        assert found["metadata"]["name"].startswith("00000-lamps.example.com-")
        assert "ownerReferences" not in found["metadata"]
        assert list((kubelet_node.root / "plugins_registry").iterdir()) == []


async def test_the_time_of_a_taint_stays_while_the_taint_does(kubelet_node: Node) -> None:
    cluster, driver = kubelet_node.cluster, Pools(Pool("p", [Device("a", taints=[Taint("broken")]), Device("b")]))
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
        (first,) = await slices(cluster)
        name = first["metadata"]["name"]
        long_ago = "2020-01-01T00:00:00Z"
        first["spec"]["devices"][0]["taints"][0]["timeAdded"] = long_ago
        await cluster.patch("ResourceSlice", name, {"spec": {"devices": first["spec"]["devices"]}})

        async def known() -> bool:
            return runner.publisher._slices is not None and long_ago in str(runner.publisher._slices.pools())

        await cluster.eventually(known)
        driver.declared = [Pool("p", [Device("a", taints=[Taint("broken")]), Device("b", taints=[Taint("broken")])])]
        runner.publish()
        await runner.publisher.published()
        (second,) = await slices(cluster)
        times = [device["taints"][0]["timeAdded"] for device in second["spec"]["devices"]]
        assert times[0] == long_ago
        assert times[1] > long_ago


async def test_fields_that_the_server_does_not_keep_are_told_of_once(kubelet_node: Node, caplog: Any) -> None:
    async with LocalCluster(objects=[node("node-1")], gates=ALL_GATES.unlocked(DRADeviceTaints=False)) as cluster:
        kubelet_node.cluster = cluster
        driver = Pools(Pool("p", [Device("a", taints=[Taint("broken")])]))
        async with kubelet_node.running(driver) as runner:
            for watts in (None, None, 40):
                attributes = {"watts": watts} if watts else {}
                driver.declared = [Pool("p", [Device("a", attributes, taints=[Taint("broken")])])]
                runner.publish()
                await runner.publisher.published()
            (found,) = await slices(cluster)
        assert found["spec"]["devices"] == [{"name": "a", "attributes": {"watts": {"int": 40}}}]
        told = [each.getMessage() for each in caplog.records if "does not keep" in each.getMessage()]
        assert told == [
            "driver lamps.example.com: pool p, slice 0: the API server does not keep devices[].taints: "
            "the feature is off there"
        ]


async def test_pools_that_contradict_themselves_are_not_published(kubelet_node: Node, caplog: Any) -> None:
    cluster, driver = kubelet_node.cluster, Pools(Pool("p", [Device("a"), Device("a")]))
    async with kubelet_node.running(driver) as runner:

        async def told() -> bool:
            return "pool p: device a is declared twice" in caplog.text

        await cluster.eventually(told)
        assert await slices(cluster) == []
        driver.declared = [Pool("p", [Device("a")])]
        runner.publish()
        await cluster.eventually(shaped(cluster, (1, 1, 1, 0)))
