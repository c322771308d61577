"""Devices and claims on the page: search, selectors, how many can be had, timelines, and who sees what."""

from __future__ import annotations

from dray.api.objects import Object
from dray.testing import objects
from dray.testing.cluster import kind_of
from dray.web.search.timelines import story
from tests.web.stages import ViewStage, view_stage

GPU = 'device.driver == "gpu.example.com"'
MODEL = 'device.attributes["gpu.example.com"].model'


def gpus(name: str, model: str, number: int) -> Object:
    devices = [objects.device(f"gpu-{each}", attributes={"model": model, "numa": each % 2}) for each in range(number)]
    return objects.resource_slice(name, *devices, nodeName=name)


def world() -> list[Object]:
    return [
        objects.node("a"),
        objects.node("b"),
        objects.device_class("gpu", GPU),
        gpus("a", "H100", 4),
        gpus("b", "A100", 2),
        objects.resource_slice("nics", "eth-0", driver="nic.example.com", nodeName="b"),
    ]


async def hold(stage: ViewStage, name: str, *devices: str, pool: str, namespace: str = "default") -> Object:
    """A claim that has these devices."""
    made = await stage.cluster.create(objects.claim(name, objects.request(count=len(devices)), namespace=namespace))
    status = {"allocation": objects.allocation(*devices, pool=pool, nodeName=pool)}
    kind = kind_of("ResourceClaim")
    return await stage.cluster.client.update_status(kind, {**made, "status": status})


async def test_search_finds_devices_by_words_and_attributes() -> None:
    async with view_stage(*world()) as stage:
        await hold(stage, "train", "gpu-0", "gpu-1", pool="a")
        viewer = await stage.signed_in()
        whole = await stage.document(viewer, "devices")
        assert whole["models"] == {
            "H100": {"allocated": 2, "free": 2},
            "A100": {"free": 2},
            "device of nic.example.com": {"free": 1},
        }
        assert (whole["found"], whole["seesAllClaims"], list(whole["classes"])) == (7, True, ["gpu"])
        found = await stage.document(viewer, "devices?q=H100+numa%3D1")
        assert list(found["devices"]) == ["gpu.example.com/a/gpu-1", "gpu.example.com/a/gpu-3"]
        assert found["devices"]["gpu.example.com/a/gpu-1"]["claims"] == ["default/train"]
        free = await stage.document(viewer, "devices?state=free&model=H100")
        assert list(free["devices"]) == ["gpu.example.com/a/gpu-2", "gpu.example.com/a/gpu-3"]
        opened = await stage.document(viewer, "devices?open=gpu.example.com/b/gpu-0")
        assert opened["open"]["conditions"]["model"] == f'{MODEL} == "A100"'


async def test_a_selector_shows_what_matches_and_why_the_others_do_not() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        answer = await stage.call(viewer, "devices", "match", selector=f'{GPU} && {MODEL} == "A100"')
        assert (answer["count"], answer["total"]) == (2, 7)
        assert sorted(answer["devices"]) == ["gpu.example.com/b/gpu-0", "gpu.example.com/b/gpu-1"]
        assert [(each["condition"], each["reason"], each["count"]) for each in answer["others"]] == [
            (GPU, 'driver is "nic.example.com"', 1),
            (f'{MODEL} == "A100"', 'model is "H100"', 4),
        ]
        assert not any(each["error"] for each in answer["others"])


async def test_a_class_narrows_before_the_selector_and_errors_are_groups() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        wrong = 'device.attributes["gpu.example.com"].modle == "A100"'
        answer = await stage.call(viewer, "devices", "match", selector=wrong, **{"class": "gpu"})
        assert answer["count"] == 0
        assert [(each["condition"], each["count"], each["error"]) for each in answer["others"]] == [
            ("class gpu", 1, False),
            (wrong, 6, True),
        ]
        assert "did you mean model" in answer["others"][1]["reason"]


async def test_a_selector_that_does_not_compile_shows_the_place() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        answer = await stage.call(viewer, "devices", "match", selector="device.drivr == 'x'")
        assert (answer["problem"]["line"], answer["problem"]["column"], answer["count"]) == (1, 7, 0)
        assert "^" in answer["problem"]["excerpt"]
        assert "drivr" in answer["problem"]["text"]
        refused = await stage.refusal(viewer, "devices", "match", selector="x" * 20_000)
        assert refused.status == 400
        refused = await stage.refusal(viewer, "devices", "match", **{"class": "none"})
        assert refused.json["error"] == "DeviceClass none not found"


async def test_costly_selectors_end_and_say_so() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        numbers = "[" + ",".join(map(str, range(100))) + "]"
        costly = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
        answer = await stage.call(viewer, "devices", "match", selector=costly)
        assert answer["cost"] > answer["costLimit"]
        assert answer["count"] == 0
        assert all(each["error"] for each in answer["others"]) or not answer["complete"]


async def test_how_many_could_be_had_at_once_counts_what_is_free_and_not_tainted() -> None:
    async with view_stage(*world()) as stage:
        await hold(stage, "train", "gpu-0", pool="a")
        viewer = await stage.signed_in()
        answer = await stage.call(viewer, "devices", "match", **{"class": "gpu"})
        found = answer["room"]
        assert (found["most"], found["node"], found["total"], found["nodes"]) == (3, "a", 5, {"3": 1, "2": 1})
        rule = objects.device_taint_rule(
            "bad", objects.taint("broken", "NoSchedule"), deviceSelector={"pool": "a", "device": "gpu-1"}
        )
        await stage.cluster.create({**rule, "apiVersion": "resource.k8s.io/v1beta2"})
        async with viewer.stream("/ui/stream/devices") as stream:
            while "tainted" not in str(stream.events):
                await stream.until_event(len(stream.events) + 1)
        answer = await stage.call(viewer, "devices", "match", **{"class": "gpu"})
        assert (answer["room"]["most"], answer["room"]["total"]) == (2, 4)


async def test_a_viewer_who_sees_no_claims_is_not_told_that_devices_are_free() -> None:
    async with view_stage(*world()) as stage:
        await stage.grant("ann", ["list"], "resourceslices.resource.k8s.io")
        await stage.grant("ann", ["list"], "resourceclaims.resource.k8s.io", "default")
        await stage.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "secret"}})
        await hold(stage, "mine", "gpu-0", pool="a")
        await hold(stage, "theirs", "gpu-1", pool="a", namespace="secret")
        viewer = await stage.signed_in("ann")
        document = await stage.document(viewer, "devices")
        assert not document["seesAllClaims"]
        assert document["models"]["H100"] == {"allocated": 1, "unknown": 3}
        assert "theirs" not in str(document)
        claims = await stage.document(viewer, "devices?show=claims&open=secret/theirs")
        assert list(claims["claims"]) == ["default/mine"]
        assert "open" not in claims


async def test_claims_have_their_state_and_a_timeline() -> None:
    async with view_stage(*world()) as stage:
        await hold(stage, "train", "gpu-0", pool="a")
        await stage.cluster.create(objects.claim("later"))
        viewer = await stage.signed_in()
        document = await stage.document(viewer, "devices?show=claims&open=default/train")
        assert {name: row["state"] for name, row in document["claims"].items()} == {
            "default/later": "waiting",
            "default/train": "allocated",
        }
        assert document["open"]["results"] == ["gpu.example.com/a/gpu-0"]
        steps = {each["step"]: each["done"] for each in document["open"]["timeline"]}
        assert steps == {"created": True, "allocated": True, "reserved": False, "prepared": False, "released": False}


def running(started: str, ended: str = "") -> Object:
    state = (
        {"terminated": {"startedAt": started, "finishedAt": ended}} if ended else {"running": {"startedAt": started}}
    )
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T10:00:07Z"}
    status = {"conditions": [scheduled], "containerStatuses": [{"name": "main", "state": state}]}
    return objects.pod("p", claims=["c"], namespace="default", uid="u", status=status)


def claimed(**status: object) -> Object:
    return objects.claim("c", namespace="default", uid="c", creationTimestamp="2026-01-01T10:00:00Z", status=status)


def test_times_are_exact_where_an_object_tells_them_and_bounds_elsewhere() -> None:
    allocation = {**objects.allocation("gpu-0", pool="a"), "allocationTimestamp": "2026-01-01T10:00:05Z"}
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    told = story(claimed(allocation=allocation, reservedFor=[consumer]), [running("2026-01-01T10:00:09Z")])
    assert told["timeline"] == [
        {"step": "created", "done": True, "time": "2026-01-01T10:00:00Z"},
        {"step": "allocated", "done": True, "time": "2026-01-01T10:00:05Z"},
        {"step": "reserved", "done": True, "by": "2026-01-01T10:00:07Z", "note": "pods p"},
        {"step": "prepared", "done": True, "by": "2026-01-01T10:00:09Z"},
        {"step": "released", "done": False},
    ]


def test_a_driver_that_reports_ready_devices_gives_the_time_of_preparation() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T10:00:08Z"}
    devices = [{"driver": "d", "pool": "a", "device": "gpu-0", "conditions": [ready]}]
    steps = {each["step"]: each for each in story(claimed(devices=devices), [])["timeline"]}
    assert steps["prepared"] == {"step": "prepared", "done": True, "time": "2026-01-01T10:00:08Z"}


def test_steps_without_a_record_have_no_time() -> None:
    steps = story(claimed(allocation=objects.allocation("gpu-0", pool="a")), [])["timeline"]
    assert steps[1] == {"step": "allocated", "done": True}
    released = story(claimed(), [running("2026-01-01T10:00:09Z", "2026-01-01T11:00:00Z")])["timeline"]
    assert released[4] == {"step": "released", "done": True, "by": "2026-01-01T11:00:00Z"}


def test_events_of_the_claim_and_its_pods_are_part_of_the_timeline() -> None:
    about = {"kind": "Pod", "name": "p", "uid": "u"}
    event = {"involvedObject": about, "reason": "Scheduled", "message": "to a", "lastTimestamp": "2026-01-01T10:00:07Z"}
    other = {"involvedObject": {"uid": "x"}, "reason": "Other"}
    told = story(claimed(), [running("2026-01-01T10:00:09Z")], [event, other])
    assert told["events"] == [{"step": "Scheduled", "done": True, "time": "2026-01-01T10:00:07Z", "note": "to a"}]


def test_a_timeline_has_the_newest_events_with_bounded_texts() -> None:
    event = {"involvedObject": {"kind": "ResourceClaim", "uid": "u"}, "reason": "r" * 9000, "message": "m" * 9000}
    many = [{**event, "lastTimestamp": f"2026-01-01T{number:04}"} for number in range(500)]
    told = story({**claimed(), "metadata": {**claimed()["metadata"], "uid": "u"}}, [], many)["events"]
    assert (len(told), told[-1]["time"]) == (100, "2026-01-01T0499")
    assert {(len(each["step"]), len(each["note"])) for each in told} == {(500, 500)}
