"""The history of the page: what a sample has, how much is kept, and who sees it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from dray.api.catalogue import built_in
from dray.api.objects import Object
from dray.testing import objects
from dray.web.devices.known_layouts import KnownLayouts
from dray.web.devices.layouts import kind_of
from dray.web.history.excerpts import EXCERPTS
from dray.web.history.measures import measure
from dray.web.history.recorder import _MOST_EVENTS, History, Recorder, recording
from dray.web.history.samples import MOST_NAMES, RINGS, Samples
from dray.web.model import Model
from dray.web.search.rows import model_of
from tests.web.stages import view_stage
from tests.web.test_devices_view import gpus, hold, world

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()


def in_use(name: str, *devices: str, pool: str, use: Object | None = None) -> Object:
    reports = [
        {"driver": objects.DRIVER, "pool": pool, "device": each, "data": {"utilization": use or {}}} for each in devices
    ]
    status = {"allocation": objects.allocation(*devices, pool=pool), "devices": reports}
    return objects.claim(name, namespace="default", uid=name, status=status)


def measured(*claims: Object, pods: list[Object] | None = None, slices: list[Object] | None = None) -> dict[str, float]:
    found = slices if slices is not None else [gpus("a", "H100", 4), gpus("b", "A100", 2)]
    return measure({"slices": found, "claims": list(claims), "pods": pods or [], "taintrules": []}, NOW).sample


def test_a_sample_has_allocation_of_all_devices_and_by_model() -> None:
    sample = measured(in_use("c", "gpu-0", "gpu-1", "gpu-2", pool="a"))
    assert (sample["devices"], sample["allocated"]) == (6, 50)
    assert (sample["allocated:H100"], sample["allocated:A100"]) == (75, 0)


def test_partitions_that_are_possible_and_small_devices_do_not_thin_out_what_is_in_use() -> None:
    def using(number: str) -> list[Object]:
        return [{"counterSet": "gpu", "counters": {"slices": {"value": number}}}]

    def part(number: int) -> Object:
        attributes = {"parentUUID": {"string": "GPU-0"}, "profile": {"string": "1g.10gb"}}
        return {"name": f"part-{number}", "attributes": attributes, "consumesCounters": using("1")}

    h100 = {"productName": {"string": "H100"}, "uuid": {"string": "GPU-0"}}
    whole: Object = {"name": "gpu-0", "attributes": h100, "consumesCounters": using("7")}
    other: Object = {"name": "gpu-1", "attributes": {"productName": {"string": "H100"}}}
    counters = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]
    divided = objects.resource_slice("a", whole, other, *map(part, range(7)), nodeName="a", sharedCounters=counters)
    nics = [{"name": f"eth-{number}", "attributes": {"dra.net/rdma": {"bool": True}}} for number in range(8)]
    network = objects.resource_slice("nics", *nics, driver="dra.net", nodeName="a")
    sample = measured(in_use("c", "part-3", pool="a"), slices=[divided, network])
    assert (sample["devices"], sample["allocated"], sample["allocated:H100"]) == (2, 50, 50)
    # The other GPU is beside one that is partly in use.
    assert sample["fragmentation"] == 100
    assert "allocated:1g.10gb" not in sample
    assert measured(slices=[network])["devices"] == 8


DEVICES = {
    "gpu": ("gpu.nvidia.com", {"type": {"string": "gpu"}, "productName": {"string": "H100"}}),
    "part": ("gpu.nvidia.com", {"parentUUID": {"string": "GPU-0"}, "profile": {"string": "1g.10gb"}}),
    "nic": ("dra.net", {"dra.net/pciDevice": {"string": "ConnectX-7"}}),
    "cpu": ("dra.cpu", {}),
    "tpu": ("tpu.google.com", {"tpuGen": {"string": "v6e"}}),
    "other": ("fpga.example.com", {"model": {"string": "U250"}}),
}


@pytest.mark.parametrize("kind", DEVICES)
def test_excerpts_keep_model_and_kind_of_a_device(kind: str) -> None:
    driver, attributes = DEVICES[kind]
    made = objects.resource_slice("a", {"name": "d", "attributes": attributes}, driver=driver, nodeName="a")
    [before], [after] = (each["spec"]["devices"] for each in (made, EXCERPTS["slices"](made)))
    assert (kind_of(driver, before), kind_of(driver, after)) == (kind, kind)
    assert model_of(after, driver) == model_of(before, driver)


def test_what_cannot_be_measured_is_missing_and_not_zero() -> None:
    assert measured(slices=[]) == {"waiting": 0, "longest": 0}
    assert "busy" not in measured(in_use("c", "gpu-0", pool="a"))


def test_utilization_is_the_mean_of_devices_that_report_it() -> None:
    first = in_use("c", "gpu-0", pool="a", use={"percent": 90, "observedAt": "2026-01-01T11:59:00Z"})
    second = in_use("d", "gpu-0", pool="b", use={"percent": 10, "observedAt": "2026-01-01T11:59:00Z"})
    assert measured(first, second, in_use("e", "gpu-1", pool="b"))["busy"] == 50


def test_fragmentation_is_the_share_of_free_devices_on_nodes_partly_in_use() -> None:
    assert measured()["fragmentation"] == 0
    # Three of the five free devices are beside one in use.
    assert measured(in_use("c", "gpu-0", pool="a"))["fragmentation"] == 60
    assert measured(in_use("c", "gpu-0", "gpu-1", "gpu-2", "gpu-3", pool="a"))["fragmentation"] == 0


def test_waiting_pods_are_those_without_a_node() -> None:
    pods = [
        objects.pod("old", namespace="default", creationTimestamp="2026-01-01T11:00:00Z"),
        objects.pod("new", namespace="default", creationTimestamp="2026-01-01T11:59:00Z"),
        objects.pod("runs", namespace="default", creationTimestamp="2026-01-01T10:00:00Z", nodeName="a"),
        objects.pod("done", namespace="default", creationTimestamp="2026-01-01T10:00:00Z", status={"phase": "Failed"}),
    ]
    sample = measured(pods=pods)
    assert (sample["waiting"], sample["longest"]) == (2, 3600)


def test_idle_devices_are_listed_with_their_claim() -> None:
    use = {"percent": 0, "observedAt": "2026-01-01T11:59:00Z", "idleSince": "2026-01-01T11:00:00Z"}
    found = measure(
        {
            "slices": [gpus("a", "H100", 4)],
            "claims": [in_use("c", "gpu-0", pool="a", use=use)],
            "pods": [],
            "taintrules": [],
        },
        NOW,
    )
    assert [(each.device, each.claim, each.since) for each in found.idle] == [
        ("gpu.example.com/a/gpu-0", "default/c", "2026-01-01T11:00:00Z")
    ]


def test_rings_keep_means_and_never_grow() -> None:
    samples = Samples()
    for number in range(40_000):
        samples.add(NOW + 10 * number, {"waiting": float(number % 2)})
    for hours, (step, length) in RINGS.items():
        points = samples.points(hours)
        assert len(points) == length
        times = list(points)
        assert times[1] - times[0] == step
    assert set(map(tuple, (point.items() for point in samples.points(24).values()))) == {(("waiting", 0.5),)}


def test_a_sample_with_many_names_is_cut() -> None:
    samples = Samples()
    samples.add(NOW, {f"allocated:{number}": 1.0 for number in range(1000)})
    [point] = samples.points(1).values()
    assert len(point) == MOST_NAMES


def test_events_are_bounded_and_repeated_ones_count_once() -> None:
    history = History()
    for number in range(3 * _MOST_EVENTS):
        about = {"kind": "Pod", "namespace": "default", "name": f"p{number}"}
        event = {"metadata": {"namespace": "default", "name": "e", "uid": str(number // 2)}, "involvedObject": about}
        history.note({**event, "reason": "Failed", "lastTimestamp": "2026-01-01T10:00:00Z"})
    assert len(history.marks) == _MOST_EVENTS
    assert len({mark.uid for mark in history.marks}) == _MOST_EVENTS
    history.note({"metadata": {"uid": "x", "namespace": "default"}, "reason": "without a time"})
    assert history.marks[-1].about == f"Pod default/p{3 * _MOST_EVENTS - 1}"


def test_events_with_long_texts_take_little_memory() -> None:
    """Whoever may write events may write a megabyte into each."""
    long = "x" * 1_000_000
    event = {"metadata": {"uid": "u", "namespace": "default"}, "lastTimestamp": "2026-01-01T10:00:00Z"}
    about = {"kind": long, "namespace": long, "name": long}
    history = History()
    history.note({**event, "type": long, "reason": long, "message": long, "involvedObject": about})
    assert len(str(history.marks[0])) < 2000
    history.note({**event, "metadata": {"uid": "v", "namespace": "default"}, "lastTimestamp": long})
    assert len(str(history.marks)) < 4000


async def test_events_that_a_viewer_brings_into_the_model_before_the_first_sample_are_kept() -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "early"}
    early: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "early", "namespace": "default"},
        "involvedObject": about,
        "lastTimestamp": "2026-01-01T10:00:00Z",
    }
    async with view_stage(*world(), early) as stage:
        model, history = Model(stage.cluster.client), History()
        async with recording(model, history, KnownLayouts()):
            await asyncio.sleep(0)
            await model.need(("events",))
        await model.close()
        assert [mark.about for mark in history.marks] == ["Pod default/early"]


async def test_a_sample_is_the_same_whether_somebody_looks_or_not() -> None:
    use = {"percent": 3, "observedAt": "2026-01-01T11:59:00Z", "idleSince": "2026-01-01T11:00:00Z"}
    async with view_stage(*world()) as stage:
        held = await hold(stage, "train", "gpu-0", pool="a")
        report = {"driver": objects.DRIVER, "pool": "a", "device": "gpu-0", "data": {"utilization": use}}
        reporting = {**held, "status": {**held["status"], "devices": [report]}}
        await stage.cluster.client.update_status(built_in("resource.k8s.io/v1", "ResourceClaim"), reporting)
        await stage.cluster.create(objects.pod("waits", namespace="default"))
        watched, unwatched = History(), History()
        model, looked_at = Model(stage.cluster.client), Model(stage.cluster.client)
        await looked_at.need(("slices",))
        for history, each in ((watched, looked_at), (unwatched, model)):
            await Recorder(each, history, KnownLayouts(), clock=lambda: NOW).sample()
        assert (looked_at.is_watched, model.is_watched) == (True, False)
        assert watched.samples.points(1) == unwatched.samples.points(1) != {}
        assert watched.idle == unwatched.idle != ()
        await looked_at.close()


async def test_events_are_listed_while_nobody_looks() -> None:
    names = [f"e{number}" for number in range(250)]
    events = [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": name},
            "lastTimestamp": f"2026-01-01T10:{number // 60:02}:{number % 60:02}Z",
        }
        for number, name in enumerate(names)
    ]
    async with view_stage(*events) as stage:
        history = History()
        recorder = Recorder(Model(stage.cluster.client), history, KnownLayouts())
        for _ in range(2):
            await recorder.sample()
        assert [mark.about for mark in history.marks] == [f"Pod default/{name}" for name in names]


async def test_numbers_of_the_whole_cluster_are_for_those_who_may_list_it() -> None:
    async with view_stage(*world()) as stage:
        await hold(stage, "train", "gpu-0", pool="a")
        history = stage.services.history
        model = Model(stage.cluster.client)
        recorder = Recorder(model, history, KnownLayouts())
        await recorder.sample()
        await model.close()
        about = {"kind": "Pod", "namespace": "secret", "name": "hidden"}
        event = {"metadata": {"namespace": "secret", "name": "e", "uid": "e"}, "involvedObject": about}
        history.note({**event, "reason": "Failed", "lastTimestamp": "2026-01-01T10:00:00Z"})
        admin = await stage.document(await stage.signed_in(), "history")
        [point] = admin["points"].values()
        assert (point["devices"], point["waiting"], admin["hidden"]) == (7, 0, {})
        assert "e" in admin["events"]
        ann = await stage.document(await stage.signed_in("ann"), "history?hours=6")
        assert (ann["points"], ann["events"], ann["hours"]) == ({}, {}, 6)
        await stage.grant("bob", ["list"], "pods")
        await stage.grant("bob", ["list"], "resourceslices.resource.k8s.io")
        bob = await stage.document(await stage.signed_in("bob"), "history?hours=x")
        [point] = bob["points"].values()
        assert (sorted(point), bob["hours"]) == (["devices", "longest", "waiting"], 1)
        # What bob may list is no reason.
        assert bob["hidden"] == {name: ["resourceclaims"] for name in ("allocated", "busy", "fragmentation")}
        assert (admin["seesAllEvents"], bob["seesAllEvents"]) == (True, False)
