"""The loop against a server: what is written in which order, and what a lost race or a lost answer does."""

import asyncio

import pytest

from dray.client.errors import ConnectionFailed
from dray.client.interface import DeleteOptions
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests import gpus
from tests.scheduling_loop.readers import claim_of, condition, events

# The ordinary way


async def test_a_pod_is_bound_with_its_devices():
    documents = [objects.node("n"), gpus.slice_of("n"), gpus.device_class("gpu"), objects.claim_template("t")]
    async with LocalCluster(scheduler=Options(), controllers=["resourceclaim"], objects=documents) as cluster:
        for each in documents:
            if each["kind"] == "Node":
                await cluster.patch("Node", "n", {"spec": {"taints": None}})
        await cluster.create(gpus.pod("p", templates=["t"]))

        async def is_bound():
            pod = await cluster.get("Pod", "p")
            return pod["spec"].get("nodeName") and pod

        pod = await cluster.eventually(is_bound)
        (claim,) = await cluster.list("ResourceClaim")
        assert pod["spec"]["nodeName"] == "n"
        assert condition(pod)["status"] == "True"
        assert gpus.held(claim) == ["gpu-0"]
        assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
        assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]
        assert claim["status"]["allocation"]["allocationTimestamp"]


async def test_the_writes_of_a_pod_come_in_order(virtual_cluster):
    await virtual_cluster.create(objects.claim("c"))
    virtual_cluster.transports["scheduler"].heard.clear()
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await virtual_cluster.quiet()
    calls = [(m, p) for m, p in virtual_cluster.transports["scheduler"].heard if m != "GET" and "/events" not in p]
    heard = [(m, p.rsplit("/", 2)[-2:]) for m, p in calls]
    assert heard == [
        ("PUT", ["resourceclaims", "c"]),
        ("PUT", ["c", "status"]),
        ("POST", ["p", "binding"]),
    ]


async def test_a_pod_without_its_claim_is_told_which_one_is_missing(virtual_cluster, caplog):
    caplog.set_level("INFO", "dray.scheduler")
    await virtual_cluster.create(gpus.pod("p", claims=["training-gpus"]))
    await virtual_cluster.quiet()
    await asyncio.sleep(5)
    await virtual_cluster.quiet()
    told = condition(await virtual_cluster.get("Pod", "p"))
    assert (told["status"], told["reason"]) == ("False", "Unschedulable")
    assert told["message"].startswith("ResourceClaim default/training-gpus not found")
    (event,) = await events(virtual_cluster, "FailedScheduling")
    assert event["message"] == told["message"]
    assert f"Pod default/p not placed: {told['message']}; DRA claim default/training-gpus" in caplog.text


async def test_why_a_pod_waits_is_said_once_and_until_it_changes(virtual_cluster):
    await virtual_cluster.create(gpus.pod("p", cpu="100000"))
    await virtual_cluster.quiet()
    pod = await virtual_cluster.get("Pod", "p")
    assert condition(pod)["reason"] == "Unschedulable"
    assert condition(pod)["observedGeneration"] == pod["metadata"]["generation"]
    assert "Insufficient cpu" in condition(pod)["message"]
    assert len(await events(virtual_cluster, "FailedScheduling")) == 1
    before = pod["metadata"]["resourceVersion"]
    await virtual_cluster.quiet(1000)
    assert (await virtual_cluster.get("Pod", "p"))["metadata"]["resourceVersion"] == before


# Lost races


async def test_a_claim_that_changed_meanwhile_is_written_all_the_same(virtual_cluster):
    await virtual_cluster.create(objects.claim("c"))
    virtual_cluster.transports["scheduler"].slowest = 0.5
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    for number in range(10):
        await asyncio.sleep(0.1)
        await virtual_cluster.patch("ResourceClaim", "c", {"metadata": {"labels": {"n": str(number)}}})
    await virtual_cluster.quiet()
    assert await virtual_cluster.node_of("p")
    assert len(gpus.held(await claim_of(virtual_cluster, "p"))) == 1


async def test_a_claim_that_somebody_else_allocated_is_used_as_it_is(virtual_cluster):
    await virtual_cluster.create(objects.claim("c"))
    virtual_cluster.transports["scheduler"].slowest = 2.0
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await asyncio.sleep(0.2)
    finalizer = "resource.kubernetes.io/delete-protection"
    await virtual_cluster.patch("ResourceClaim", "c", {"metadata": {"finalizers": [finalizer]}})
    allocation = objects.allocation("gpu-3", pool="n1", nodeName="n1")
    await virtual_cluster.patch("ResourceClaim", "c", {"status": {"allocation": allocation}}, "status")
    await virtual_cluster.quiet(60)
    assert await virtual_cluster.node_of("p") == "n1"
    assert gpus.held(await claim_of(virtual_cluster, "p")) == ["gpu-3"]


async def deleted(cluster, kind, name):
    """A minute after it was deleted."""
    await cluster.client.delete(kind_of(kind), name, namespace="default")
    await cluster.quiet(60)


async def test_a_claim_that_is_deleted_meanwhile_is_not_held_for_ever(virtual_cluster):
    await virtual_cluster.create(objects.claim("c"))
    virtual_cluster.transports["scheduler"].slowest = 1.0
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await asyncio.sleep(0.3)
    await deleted(virtual_cluster, "ResourceClaim", "c")
    await deleted(virtual_cluster, "Pod", "p")
    virtual_cluster.transports["scheduler"].slowest = 0.0
    await virtual_cluster.create(objects.claim_template("t"))
    for number in range(8):
        await virtual_cluster.create(gpus.pod(f"q{number}", templates=["t"]))
    await virtual_cluster.quiet(60)
    assert len(await virtual_cluster.bound()) == 8


async def test_a_pod_that_is_deleted_while_it_is_bound_gives_everything_back(virtual_cluster):
    await virtual_cluster.create(objects.claim_template("t"))
    virtual_cluster.transports["scheduler"].slowest = 1.0
    for number in range(8):
        await virtual_cluster.create(gpus.pod(f"p{number}", templates=["t"]))
    await asyncio.sleep(0.7)
    for number in range(8):
        await virtual_cluster.client.delete(kind_of("Pod"), f"p{number}", namespace="default")
    for number in range(8):
        await virtual_cluster.create(gpus.pod(f"q{number}", templates=["t"]))
    await virtual_cluster.quiet(120)
    assert len(await virtual_cluster.bound()) == 8


# Lost answers

WRITES = [("PUT", "/c/status"), ("PUT", "/resourceclaims/c"), ("POST", "/binding")]


@pytest.mark.parametrize("fate", ["before", "after", "hidden", 503, 429, 409, 500])
@pytest.mark.parametrize(("method", "path"), WRITES, ids=["status", "finalizer", "binding"])
async def test_whatever_becomes_of_a_write_the_pod_is_bound_and_no_device_lost(virtual_cluster, method, path, fate):
    await virtual_cluster.create(objects.claim("c"))
    virtual_cluster.transports["scheduler"].plan(method, path, fate)
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await virtual_cluster.create(objects.claim_template("t"))
    for number in range(7):
        await virtual_cluster.create(gpus.pod(f"q{number}", templates=["t"]))
    await virtual_cluster.quiet(60)
    assert virtual_cluster.transports["scheduler"].faults == 1
    assert len(await virtual_cluster.bound()) == 8
    assert len((await claim_of(virtual_cluster, "p"))["status"]["reservedFor"]) == 1


@pytest.mark.parametrize("fate", ["after", "hidden"])
async def test_while_it_is_not_known_whether_a_claim_was_written_its_device_is_not_given_away(virtual_cluster, fate):
    """The watch is slow, and the answers that would tell are lost for a while."""
    virtual_cluster.transports["scheduler"].watch_delay = 3.0
    await virtual_cluster.create(objects.claim("c", objects.request(count=4)))
    virtual_cluster.transports["scheduler"].plan("PUT", "/c/status", fate, times=9)
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await asyncio.sleep(4)
    await virtual_cluster.create(objects.claim_template("t"))
    for number in range(8):
        await virtual_cluster.create(gpus.pod(f"q{number}", templates=["t"]))
    await virtual_cluster.quiet(120)
    assert await virtual_cluster.node_of("p")
    assert len(await virtual_cluster.bound()) == 5


@pytest.mark.parametrize("refusal", [429, 403, 409, 500])
@pytest.mark.parametrize("fate", ["after", "hidden"])
async def test_a_write_that_is_refused_when_repeated_may_have_been_done_before(virtual_cluster, fate, refusal):
    virtual_cluster.transports["scheduler"].watch_delay = 3.0
    await virtual_cluster.create(objects.claim("c", objects.request(count=4)))
    virtual_cluster.transports["scheduler"].plan("PUT", "/c/status", fate)
    virtual_cluster.transports["scheduler"].plan("PUT", "/c/status", refusal)
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await virtual_cluster.create(objects.claim_template("t"))
    for number in range(8):
        await virtual_cluster.create(gpus.pod(f"q{number}", templates=["t"]))
    await virtual_cluster.quiet(120)
    assert virtual_cluster.transports["scheduler"].faults == 2
    assert await virtual_cluster.node_of("p")
    assert len(await virtual_cluster.bound()) == 5


async def test_a_claim_that_lost_its_finalizer_meanwhile_gets_it_back_before_it_is_allocated(virtual_cluster):
    """The claim controller takes it off when the last user of a claim has gone."""
    await virtual_cluster.create(objects.claim("c"))
    transport, taken = virtual_cluster.transports["scheduler"], []
    send = transport._inner.send

    async def take_off_first(request):
        if request.path.endswith("/c/status") and not taken:
            taken.append(True)
            await virtual_cluster.patch("ResourceClaim", "c", {"metadata": {"finalizers": None}})
        return await send(request)

    transport._inner.send = take_off_first
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await virtual_cluster.quiet()
    claim = await claim_of(virtual_cluster, "p")
    assert taken
    assert gpus.held(claim)
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


@pytest.mark.parametrize("fate", [None, "before", "after", "hidden", 503])
async def test_a_claim_that_was_given_back_is_allocated_anew_however_late_the_watch_is(virtual_cluster, fate):
    """The binding is refused, and what was written is taken back, which may go wrong too."""
    virtual_cluster.transports["scheduler"].watch_delay = 5.0
    await virtual_cluster.create(objects.claim("c"))
    virtual_cluster.transports["scheduler"].plan("POST", "/binding", 409)
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    while not virtual_cluster.transports["scheduler"].faults:
        await asyncio.sleep(0.01)
    if fate is not None:
        virtual_cluster.transports["scheduler"].plan("PUT", "/c/status", fate, times=4)
    await virtual_cluster.quiet(120)
    assert await virtual_cluster.node_of("p")
    assert len(gpus.held(await claim_of(virtual_cluster, "p"))) == 1


async def test_a_server_that_is_away_for_a_while_is_waited_for(virtual_cluster):
    await virtual_cluster.create(objects.claim_template("t"))
    transport = virtual_cluster.transports["scheduler"]
    send = transport._inner.send
    gone = asyncio.Event()

    async def away(request):
        if gone.is_set():
            raise ConnectionFailed("nobody there", sent=False)
        return await send(request)

    transport._inner.send = away
    for number in range(8):
        await virtual_cluster.create(gpus.pod(f"p{number}", templates=["t"]))
    await asyncio.sleep(0)
    gone.set()
    await asyncio.sleep(100)
    gone.clear()
    await virtual_cluster.quiet(60)
    assert len(await virtual_cluster.bound()) == 8


# Giving back


async def test_an_unused_claim_in_the_way_is_released(virtual_cluster):
    await virtual_cluster.create(objects.claim("c"))
    await virtual_cluster.create(gpus.pod("first", claims=["c"]))
    await virtual_cluster.quiet()
    node = await virtual_cluster.node_of("first")
    other = {"n0": "n1", "n1": "n0"}[node]
    await virtual_cluster.patch("Node", node, {"spec": {"unschedulable": True}})
    # The controller takes the devices back with the last user; put them in the way again.
    held = await virtual_cluster.get("ResourceClaim", "c")
    await virtual_cluster.client.delete(kind_of("Pod"), "first", namespace="default")
    await virtual_cluster.quiet()
    finalizer = "resource.kubernetes.io/delete-protection"
    await virtual_cluster.patch("ResourceClaim", "c", {"metadata": {"finalizers": [finalizer]}})
    await virtual_cluster.patch(
        "ResourceClaim", "c", {"status": {"allocation": held["status"]["allocation"]}}, "status"
    )
    await virtual_cluster.create(gpus.pod("second", claims=["c"]))
    await virtual_cluster.quiet()
    assert await virtual_cluster.node_of("second") == other


async def test_what_is_said_late_of_a_pod_that_waits_is_not_said_of_one_that_is_bound(virtual_cluster):
    virtual_cluster.transports["scheduler"].slowest = 2.0
    for number in range(10):
        await virtual_cluster.create(gpus.pod(f"p{number}", nodeSelector={"chosen": "yes"}))
    await asyncio.sleep(0.1)
    await virtual_cluster.patch("Node", "n0", {"metadata": {"labels": {"chosen": "yes"}}})
    await virtual_cluster.quiet(60)
    found = await virtual_cluster.pods()
    assert [each["spec"].get("nodeName") for each in found] == ["n0"] * 10
    assert [condition(each)["status"] for each in found] == ["True"] * 10


# Preemption


async def test_a_pod_of_low_priority_goes_gracefully_for_its_device(virtual_cluster):
    await virtual_cluster.create(objects.priority_class("high", 100))
    await virtual_cluster.create(objects.claim_template("all", objects.request(count=4)))
    for number in range(2):
        await virtual_cluster.create(gpus.pod(f"low{number}", templates=["all"], terminationGracePeriodSeconds=30))
    await virtual_cluster.quiet()
    assert len(await virtual_cluster.bound()) == 2
    await virtual_cluster.create(gpus.pod("high", templates=["all"], priorityClassName="high"))
    await virtual_cluster.quiet(10)
    pods = {each["metadata"]["name"]: each for each in await virtual_cluster.pods()}
    (victim,) = [each for each in pods.values() if each["metadata"].get("deletionTimestamp")]
    assert condition(victim, "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    assert pods["high"]["status"]["nominatedNodeName"] == victim["spec"]["nodeName"]
    assert not pods["high"]["spec"].get("nodeName")
    assert len(await events(virtual_cluster, "Preempted")) == 1
    await virtual_cluster.quiet(100)
    assert sum(bool(each["metadata"].get("deletionTimestamp")) for each in await virtual_cluster.pods()) == 1
    # Its time is over, as a kubelet would say.
    options = DeleteOptions(grace_period=0)
    await virtual_cluster.client.delete(
        kind_of("Pod"), victim["metadata"]["name"], namespace="default", options=options
    )
    await virtual_cluster.quiet(60)
    assert await virtual_cluster.node_of("high") == victim["spec"]["nodeName"]
    assert len(await virtual_cluster.pods()) == 2


async def test_where_a_place_is_kept_is_said_even_if_the_reason_to_wait_is_the_same(virtual_cluster):
    virtual_cluster.transports["scheduler"].slowest = 1.0
    await virtual_cluster.create(objects.priority_class("high", 100))
    for number in range(2):
        await virtual_cluster.create(gpus.pod(f"low{number}", cpu="1000", terminationGracePeriodSeconds=30))
    await asyncio.sleep(0.01)
    # Those two are still being bound, and cannot be asked to go yet.
    await virtual_cluster.create(gpus.pod("high", cpu="1000", priorityClassName="high"))
    await virtual_cluster.quiet(30)
    high = await virtual_cluster.get("Pod", "high")
    assert condition(high)["message"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert high["status"]["nominatedNodeName"] in ("n0", "n1")


@pytest.mark.parametrize("fate", ["before", 409, 500])
async def test_a_preemption_whose_writes_are_lost_is_done_all_the_same(virtual_cluster, fate):
    await virtual_cluster.create(objects.priority_class("high", 100))
    await virtual_cluster.create(objects.claim_template("all", objects.request(count=4)))
    for number in range(2):
        await virtual_cluster.create(gpus.pod(f"low{number}", templates=["all"]))
    await virtual_cluster.quiet()
    for number in range(2):
        virtual_cluster.transports["scheduler"].plan("PATCH", f"/low{number}/status", fate)
        virtual_cluster.transports["scheduler"].plan("DELETE", f"/low{number}", "after")
    await virtual_cluster.create(gpus.pod("high", templates=["all"], priorityClassName="high"))
    await virtual_cluster.quiet(120)
    assert await virtual_cluster.node_of("high")
    assert len(await virtual_cluster.pods()) == 2


# Stopping


async def test_what_is_being_written_is_finished_before_it_stops(virtual_cluster):
    await virtual_cluster.create(objects.claim_template("t"))
    for number in range(8):
        await virtual_cluster.create(gpus.pod(f"p{number}", templates=["t"]))
    virtual_cluster.transports["scheduler"].slowest = 0.5
    await asyncio.sleep(0.5)
    task = virtual_cluster._tasks.pop("scheduler")
    task.cancel()
    await asyncio.wait([task])
    loop = virtual_cluster.planes["scheduler"].loop
    assert not loop._writing
    assert not loop.scheduler.in_flight
    assert not virtual_cluster.checker.problems


async def test_the_last_user_of_a_claim_gives_its_devices_back_even_if_it_never_ran(virtual_cluster):
    """One user ends while another, which shares the claim, fails to be bound."""
    await virtual_cluster.create(objects.claim("c"))
    await virtual_cluster.create(gpus.pod("a", claims=["c"]))
    await virtual_cluster.quiet()
    virtual_cluster.transports["scheduler"].plan("POST", "/b/binding", 409, times=1000)
    await virtual_cluster.create(gpus.pod("b", claims=["c"]))
    await asyncio.sleep(0.02)
    for name in "ab":
        await deleted(virtual_cluster, "Pod", name)
    assert not gpus.held(await virtual_cluster.get("ResourceClaim", "c"))


# Gangs


@pytest.mark.parametrize("times", [1, 5])
async def test_one_of_a_gang_that_cannot_be_bound_at_once_keeps_its_devices(virtual_cluster, times):
    """The other one runs by then, and small pods wait for whatever becomes free."""
    for name, number in (("all", 4), ("one", 1)):
        await virtual_cluster.create(objects.claim_template(name, objects.request(count=number)))
    virtual_cluster.transports["scheduler"].plan("POST", "/g-1/binding", 409, times=times)
    await virtual_cluster.create(objects.pod_group("g", minCount=2))
    for number in range(2):
        group = {"schedulingGroup": {"podGroupName": "g"}}
        await virtual_cluster.create(gpus.pod(f"g-{number}", templates=["all"], **group))
    for number in range(4):
        await virtual_cluster.create(gpus.pod(f"s{number}", templates=["one"]))
    await asyncio.sleep(60)
    assert {each["metadata"]["name"] for each in await virtual_cluster.bound()} == {"g-0", "g-1"}


async def test_a_gang_of_which_nobody_can_be_bound_keeps_nothing(virtual_cluster):
    await virtual_cluster.create(objects.claim_template("all", objects.request(count=4)))
    for number in range(2):
        virtual_cluster.transports["scheduler"].plan("POST", f"/g-{number}/binding", 409, times=1000)
    await virtual_cluster.create(objects.pod_group("g", minCount=2))
    for number in range(2):
        group = {"schedulingGroup": {"podGroupName": "g"}}
        await virtual_cluster.create(gpus.pod(f"g-{number}", templates=["all"], **group))
    await asyncio.sleep(60)
    assert await virtual_cluster.bound() == []
    await virtual_cluster.kill("scheduler")
    assert not any(gpus.held(each) for each in await virtual_cluster.claims())
