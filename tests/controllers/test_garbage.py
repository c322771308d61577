"""What owners take with them, as seen through the API."""

import asyncio
import itertools
import time

from dray.client.discovery import ServedResource
from dray.client.errors import ApiError, ConnectionFailed, NotFound
from dray.client.interface import DeleteOptions, GroupVersionResource
from dray.client.transport import Answer
from dray.controllers.garbage.collector import GarbageCollector
from dray.controllers.garbage.graph import Graph, Source, blocks, policy, unblocked, without_owners
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of

_number = itertools.count()


def config_map(name, *owners, namespace="default", **metadata):
    return objects.config_map(name, namespace=namespace, ownerReferences=list(owners), **metadata)


def pod(name, *owners):
    return objects.pod(name, ownerReferences=list(owners))


def claim(name, *owners):
    return objects.claim(name, ownerReferences=list(owners))


def owned_by(owner, **more):
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**reference, "uid": metadata["uid"], **more}


def nobody(**more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": f"nobody-{next(_number)}", **more}


def collecting():
    return LocalCluster(controllers=["garbage-collector"])


async def remove(cluster, kind, name, propagation=""):
    options = DeleteOptions(grace_period=0, propagation=propagation)
    await cluster.client.delete(kind_of(kind), name, namespace="default", options=options)


async def gone(cluster, kind, name):
    async def is_gone():
        return await cluster.get(kind, name) is None

    await cluster.eventually(is_gone)


async def settled(cluster):
    """Whoever had lost its owners before this is collected by the end of it."""
    owner = await cluster.create(config_map(f"owner-{next(_number)}"))
    marker = await cluster.create(config_map(f"marker-{next(_number)}", owned_by(owner)))
    await remove(cluster, "ConfigMap", owner["metadata"]["name"])
    await gone(cluster, "ConfigMap", marker["metadata"]["name"])


async def stays(cluster, kind, name):
    await settled(cluster)
    assert await cluster.get(kind, name) is not None


async def goes_with(cluster, owner, removed):
    """A dependent of this owner stays, and goes once that is removed."""
    await cluster.create(config_map("dependent", owned_by(owner)))
    await stays(cluster, "ConfigMap", "dependent")
    await removed()
    await gone(cluster, "ConfigMap", "dependent")


async def looked_at(cluster):
    """The same for those whose owner was never seen."""
    marker = await cluster.create(config_map(f"marker-{next(_number)}", nobody()))
    await gone(cluster, "ConfigMap", marker["metadata"]["name"])


async def test_the_claim_of_a_deleted_pod_goes_at_once():
    async with collecting() as cluster:
        owner = await cluster.create(pod("p"))
        await cluster.create(claim("p-gpu", owned_by(owner, controller=True, blockOwnerDeletion=True)))
        await settled(cluster)
        assert await cluster.get("ResourceClaim", "p-gpu") is not None
        # It takes no time but that of the work, however busy the machine is.
        began = time.process_time()
        await remove(cluster, "Pod", "p")
        while await cluster.get("ResourceClaim", "p-gpu") is not None:
            await asyncio.sleep(0)
        assert time.process_time() - began < 0.3


async def test_owners_that_exist_cost_no_request():
    async with collecting() as cluster:
        await settled(cluster)
        asked = []
        send = cluster.client._transport.send

        async def count(request):
            asked.append(request)
            return await send(request)

        owners = [await cluster.create(pod(f"p{number}")) for number in range(20)]
        await asyncio.sleep(0.05)
        cluster.client._transport.send = count
        for owner in owners:
            await cluster.create(claim(f"c-{owner['metadata']['name']}", owned_by(owner)))
        await asyncio.sleep(0.1)
        assert len(asked) == 20


async def test_what_belongs_to_nobody_stays():
    async with collecting() as cluster:
        await cluster.create(config_map("free"))
        await settled(cluster)
        assert await cluster.get("ConfigMap", "free") is not None


async def test_a_chain_goes_from_the_top():
    async with collecting() as cluster:
        top = await cluster.create(config_map("top"))
        middle = await cluster.create(config_map("middle", owned_by(top)))
        await cluster.create(config_map("bottom", owned_by(middle)))
        await remove(cluster, "ConfigMap", "top")
        await gone(cluster, "ConfigMap", "middle")
        await gone(cluster, "ConfigMap", "bottom")


async def test_an_owner_of_the_same_name_is_another_one():
    async with collecting() as cluster:
        owner = await cluster.create(config_map("owner"))
        await cluster.create(config_map("mine", owned_by(owner)))
        await cluster.create(config_map("old", {**owned_by(owner), "uid": "of-its-predecessor"}))
        await gone(cluster, "ConfigMap", "old")
        assert await cluster.get("ConfigMap", "mine") is not None


async def test_an_owner_in_another_namespace_is_absent_and_said_to_be():
    async with collecting() as cluster:
        owner = await cluster.create(config_map("owner", namespace="kube-system"))
        await cluster.create(config_map("stray", owned_by(owner)))
        await gone(cluster, "ConfigMap", "stray")
        await cluster.environment.events.written()
        (event,) = [e for e in await cluster.list("Event") if e["reason"] == "OwnerRefInvalidNamespace"]
        assert event["involvedObject"]["name"] == "stray"


async def test_a_cluster_scoped_object_with_an_owner_in_a_namespace_stays():
    async with collecting() as cluster:
        owner = await cluster.create(config_map("owner"))
        class_ = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {}}
        await cluster.create({**class_, "metadata": {"name": "gpu", "ownerReferences": [owned_by(owner)]}})
        await remove(cluster, "ConfigMap", "owner")
        await stays(cluster, "DeviceClass", "gpu")


async def test_a_cluster_scoped_owner_holds_and_takes_along():
    async with collecting() as cluster:
        owner = await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
        await goes_with(cluster, owner, lambda: cluster.delete("Node", "a"))


async def test_one_of_two_owners_is_enough_and_the_other_is_forgotten():
    async with collecting() as cluster:
        first, second = await cluster.create(config_map("first")), await cluster.create(config_map("second"))
        await cluster.create(config_map("shared", owned_by(first), owned_by(second)))
        await remove(cluster, "ConfigMap", "first")

        async def owners():
            references = (await cluster.get("ConfigMap", "shared"))["metadata"]["ownerReferences"]
            return [each["name"] for each in references] == ["second"]

        await cluster.eventually(owners)
        await remove(cluster, "ConfigMap", "second")
        await gone(cluster, "ConfigMap", "shared")


async def test_orphans_stay_without_their_owner():
    async with collecting() as cluster:
        owner = await cluster.create(config_map("owner"))
        other = await cluster.create(config_map("other"))
        for number in range(5):
            await cluster.create(config_map(f"child{number}", owned_by(owner), owned_by(other)))
        await cluster.create(claim("claim", owned_by(owner)))
        await settled(cluster)
        await remove(cluster, "ConfigMap", "owner", "Orphan")
        await gone(cluster, "ConfigMap", "owner")
        await settled(cluster)
        for number in range(5):
            child = await cluster.get("ConfigMap", f"child{number}")
            assert [each["name"] for each in child["metadata"]["ownerReferences"]] == ["other"]
        assert not (await cluster.get("ResourceClaim", "claim"))["metadata"].get("ownerReferences")


async def test_in_the_foreground_an_owner_waits_for_those_that_block():
    async with collecting() as cluster:
        owner = await cluster.create(config_map("owner"))
        held = config_map("held", owned_by(owner, blockOwnerDeletion=True), finalizers=["example.com/hold"])
        await cluster.create(held)
        await cluster.create(config_map("free", owned_by(owner)))
        await settled(cluster)
        await remove(cluster, "ConfigMap", "owner", "Foreground")
        await gone(cluster, "ConfigMap", "free")

        async def ending():
            return (await cluster.get("ConfigMap", "held"))["metadata"].get("deletionTimestamp")

        await cluster.eventually(ending)
        assert (await cluster.get("ConfigMap", "owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]
        await cluster.patch("ConfigMap", "held", {"metadata": {"finalizers": None}})
        await gone(cluster, "ConfigMap", "owner")
        assert await cluster.get("ConfigMap", "held") is None


async def owner_that_waits(cluster):
    """An owner that was deleted in the foreground and waits for a dependent that is held, and the reference to it."""
    owner = await cluster.create(config_map("owner"))
    block = owned_by(owner, blockOwnerDeletion=True)
    await cluster.create(config_map("held", block, finalizers=["example.com/hold"]))
    await settled(cluster)
    await remove(cluster, "ConfigMap", "owner", "Foreground")
    await settled(cluster)
    return owner, block


async def test_in_the_foreground_a_dependent_that_no_longer_blocks_lets_go():
    async with collecting() as cluster:
        owner, _ = await owner_that_waits(cluster)
        assert await cluster.get("ConfigMap", "owner") is not None
        await cluster.patch("ConfigMap", "held", {"metadata": {"ownerReferences": [owned_by(owner)]}})
        await gone(cluster, "ConfigMap", "owner")


async def test_in_the_foreground_the_leaves_go_first():
    async with collecting() as cluster:
        top = await cluster.create(config_map("top"))
        middle = await cluster.create(config_map("middle", owned_by(top, blockOwnerDeletion=True)))
        leaf = config_map("leaf", owned_by(middle, blockOwnerDeletion=True), finalizers=["example.com/hold"])
        await cluster.create(leaf)
        await settled(cluster)
        await remove(cluster, "ConfigMap", "top", "Foreground")

        async def ending():
            return (await cluster.get("ConfigMap", "leaf"))["metadata"].get("deletionTimestamp")

        await cluster.eventually(ending)
        for name in ("top", "middle"):
            assert (await cluster.get("ConfigMap", name))["metadata"]["finalizers"] == ["foregroundDeletion"]
        await cluster.patch("ConfigMap", "leaf", {"metadata": {"finalizers": None}})
        await gone(cluster, "ConfigMap", "top")


async def test_a_circle_of_blocking_owners_is_broken():
    async with collecting() as cluster:
        first = await cluster.create(config_map("first"))
        second = await cluster.create(config_map("second", owned_by(first, blockOwnerDeletion=True)))
        reference = owned_by(second, blockOwnerDeletion=True)
        await cluster.patch("ConfigMap", "first", {"metadata": {"ownerReferences": [reference]}})
        await settled(cluster)
        await remove(cluster, "ConfigMap", "first", "Foreground")
        await gone(cluster, "ConfigMap", "first")
        await gone(cluster, "ConfigMap", "second")


async def test_a_dependent_that_comes_while_its_owner_waits_goes_too():
    async with collecting() as cluster:
        _, block = await owner_that_waits(cluster)
        await cluster.create(config_map("late", block))
        await gone(cluster, "ConfigMap", "late")
        assert await cluster.get("ConfigMap", "owner") is not None


async def test_refused_and_lost_writes_are_tried_again():
    async with collecting() as cluster:
        await settled(cluster)
        send, refused = cluster.client._transport.send, set()

        async def refuse(request):
            if request.method in ("DELETE", "PATCH") and request.path not in refused:
                refused.add(request.path)
                if request.path.endswith("ownerless"):
                    raise ConnectionFailed("it broke off", sent=True)
                return Answer(409, {}, b"")
            return await send(request)

        owner = await cluster.create(config_map("owner"))
        await cluster.create(config_map("ownerless", nobody()))
        for number in range(5):
            await cluster.create(config_map(f"child{number}", owned_by(owner, blockOwnerDeletion=True)))
        await remove(cluster, "ConfigMap", "owner", "Foreground")
        cluster.client._transport.send = refuse
        for name in ("owner", "ownerless", *(f"child{number}" for number in range(5))):
            await gone(cluster, "ConfigMap", name)
        assert len(refused) >= 2


async def test_what_was_lost_before_it_started_is_found():
    async with LocalCluster() as cluster:
        owner = await cluster.create(config_map("owner"))
        lasting = await cluster.create(config_map("lasting"))
        await cluster.create(config_map("lost", owned_by(owner)))
        await cluster.create(config_map("kept", owned_by(lasting)))
        await remove(cluster, "ConfigMap", "owner")
        cluster.start(GarbageCollector(cluster.environment).run())
        await gone(cluster, "ConfigMap", "lost")
        assert await cluster.get("ConfigMap", "kept") is not None


def definition(kind, plural):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


WIDGETS = GroupVersionResource("example.com", "v1", "widgets")


async def make_widget(cluster, name, *owners):
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": list(owners)},
    }
    return await cluster.client.create(WIDGETS, body)


async def widget_is_gone(cluster, name):
    async def is_gone():
        try:
            await cluster.client.get(WIDGETS, name, namespace="default")
        except ApiError as error:
            return isinstance(error, NotFound)
        return False

    await cluster.eventually(is_gone)


async def test_of_roles_and_secrets_only_the_metadata_is_kept():
    async with LocalCluster(controllers=["garbage-collector", "resourcequota"]) as cluster:
        await settled(cluster)
        shared = {plural for _, _, plural, _ in cluster.plane.informers._informers}
        assert {"pods", "resourceclaims"} <= shared
        assert not shared & {"secrets", "configmaps", "roles", "clusterroles", "rolebindings", "clusterrolebindings"}


async def test_custom_resources_own_and_are_owned():
    async with collecting() as cluster:
        await settled(cluster)
        await cluster.create(definition("Widget", "widgets"))
        owner = await cluster.create(config_map("owner"))
        widget = await make_widget(cluster, "w", owned_by(owner))
        await cluster.create(config_map("of-widget", owned_by(widget)))
        await stays(cluster, "ConfigMap", "of-widget")
        await remove(cluster, "ConfigMap", "owner")
        await widget_is_gone(cluster, "w")
        await gone(cluster, "ConfigMap", "of-widget")


async def test_dependents_of_a_kind_that_is_no_more_go():
    async with collecting() as cluster:
        await cluster.create(definition("Widget", "widgets"))
        # Collected as soon as the kind is known, and not before.
        missing = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "nobody", "uid": "unknown"}
        await cluster.create(config_map("of-nobody", missing))
        await gone(cluster, "ConfigMap", "of-nobody")
        widget = await make_widget(cluster, "w")
        definition_name = "widgets.example.com"
        await goes_with(cluster, widget, lambda: cluster.delete("CustomResourceDefinition", definition_name))


async def test_an_owner_of_an_unknown_kind_is_nobodys_proof():
    async with collecting() as cluster:
        reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "unknown"}
        await cluster.create(config_map("undecided", reference))
        await looked_at(cluster)
        assert await cluster.get("ConfigMap", "undecided") is not None
        # The kind comes, and there is no such owner.
        await cluster.create(definition("Widget", "widgets"))
        await gone(cluster, "ConfigMap", "undecided")


def test_owner_references_as_data():
    metadata = {
        "ownerReferences": [{"uid": "a", "blockOwnerDeletion": True}, {"uid": "b"}],
        "finalizers": ["x", "orphan"],
    }
    assert blocks(metadata, "a")
    assert not blocks(metadata, "b")
    assert without_owners(metadata, {"a", "c"}) == [{"uid": "b"}]
    assert without_owners(metadata, {"c"}) is None
    assert not any(blocks({"ownerReferences": unblocked(metadata)}, uid) for uid in "ab")
    assert policy(metadata) == "Orphan"
    assert policy({"finalizers": ["foregroundDeletion"]}) == "Foreground"
    assert policy({}) == "Background"


def test_the_graph_forgets_what_is_gone():
    graph = Graph()
    source = Source(ServedResource("", "v1", "configmaps", "ConfigMap", True, frozenset()), {})

    def document(name, *owners):
        references = [{"uid": each, "kind": "ConfigMap", "name": each} for each in owners]
        return {"metadata": {"uid": name, "name": name, "namespace": "n", "ownerReferences": references}}

    graph.put(source, document("child", "a", "b"))
    assert [each.uid for each in graph.dependents("a")] == ["child"]
    _, lost = graph.put(source, document("child", "b"))
    assert lost == ("a",)
    assert graph.dependents("a") == []
    graph.put(source, document("b"))
    reference = {"uid": "b", "kind": "ConfigMap", "name": "b"}
    assert graph.stands(reference, "n")
    assert not graph.stands(reference, "other")
    assert not graph.stands({**reference, "kind": "Secret"}, "n")
    graph.remove("b")
    assert graph.was_seen_to_go("b")
    assert not graph.stands(reference, "n")
    graph.remove("child")
    assert len(graph) == 0
    assert not graph._dependents


def test_an_owner_of_many_goes_without_each_being_compared_with_all():
    def document(*owners):
        references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner} for owner in owners]
        return {"metadata": {"name": "child", "uid": "child", "ownerReferences": references}}

    graph, source = Graph(), object()
    many = [f"o{number}" for number in range(20_000)]
    graph.put(source, document(*many))
    assert graph.put(source, document(*many[:-1]))[1] == ("o19999",)
