"""Prepare and unprepare through the gRPC services, as a kubelet calls them."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import grpc
import pytest

from dray.driver import Claim, Config, ContainerEdits, Mount, Prepared, PreparedClaim, PreparedDevice
from dray.node.cdi import resolve
from dray.testing import objects
from tests.driver.node import NAME, Lamps, Node

KIND = f"k8s.{NAME}/claim"


async def test_edits_of_the_claim_stand_once_beside_those_of_its_devices(kubelet_node: Node) -> None:
    class Shared(Lamps):
        async def prepare(self, claim: Claim) -> Prepared:
            prepared = await super().prepare(claim)
            return replace(prepared, edits=ContainerEdits(mounts=(Mount("/lib/lamps", "/lib/lamps"),)))

    async with kubelet_node.plugin(Shared()) as plugin:
        claim = await kubelet_node.claim("lamp-0", "lamp-1")
        answered = await plugin.prepare(claim)
        (name,) = kubelet_node.specs()
        content = json.loads((kubelet_node.cdi / name).read_text())
        mount = {"hostPath": "/lib/lamps", "containerPath": "/lib/lamps"}
        assert content["containerEdits"] == {"mounts": [mount]}
        ids = [cdi for device in answered[claim["uid"]].devices for cdi in device.cdi_device_ids]
        edits = resolve(ids, [kubelet_node.cdi])
        assert len(edits.mounts) == 1
        assert edits.environment == {"LAMP": "lamp-1"}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_claim_is_prepared_and_unprepared(kubelet_node: Node, version: str) -> None:
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        claim = await kubelet_node.claim("lamp-0", "lamp-1")
        uid = claim["uid"]
        answered = await plugin.prepare(claim, version=version)
        assert list(answered) == [uid]
        assert answered[uid].error == ""
        assert [
            (list(each.request_names), each.pool_name, each.device_name, list(each.cdi_device_ids))
            for each in answered[uid].devices
        ] == [
            (["lamp"], "node-1", "lamp-0", [f"{KIND}={uid}-lamp-0"]),
            (["lamp"], "node-1", "lamp-1", [f"{KIND}={uid}-lamp-1"]),
        ]
        (name,) = kubelet_node.specs()
        assert name == f"k8s.{NAME}-claim_{uid}.json"
        assert json.loads((kubelet_node.cdi / name).read_text()) == {
            "cdiVersion": "0.5.0" if uid[0].isdigit() else "0.3.0",
            "kind": KIND,
            "devices": [
                {"name": f"{uid}-lamp-{number}", "containerEdits": {"env": [f"LAMP=lamp-{number}"]}}
                for number in range(2)
            ],
        }
        assert kubelet_node.records() == [uid]

        answered = await plugin.unprepare(claim, version=version)
        assert [(uid, each.error) for uid, each in answered.items()] == [(uid, "")]
        assert (kubelet_node.specs(), kubelet_node.records()) == ([], [])
        (released,) = driver.unprepared
        assert released.state == {"lamps": ["lamp-0", "lamp-1"]}
        assert released.is_complete


async def test_prepare_again_writes_the_files_again_and_gives_the_earlier_record(kubelet_node: Node) -> None:
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        claim = await kubelet_node.claim("lamp-0")
        first = await plugin.prepare(claim)
        (kubelet_node.cdi / kubelet_node.specs()[0]).unlink()
        kubelet_node.cdi.rmdir()
        assert await plugin.prepare(claim) == first
        assert len(kubelet_node.specs()) == 1
    previous = driver.prepared[1].previous
    assert previous is not None
    assert previous.is_complete
    assert previous.state == {"lamps": ["lamp-0"]}


async def test_unprepare_needs_neither_claim_nor_record(kubelet_node: Node) -> None:
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        unknown = {"namespace": "default", "name": "gone", "uid": "u-1"}
        assert (await plugin.unprepare(unknown))["u-1"].error == ""
        assert driver.unprepared == []
        claim = await kubelet_node.claim("lamp-0")
        await plugin.prepare(claim)
        await kubelet_node.cluster.delete("ResourceClaim", claim["name"])
        assert (await plugin.unprepare(claim))[claim["uid"]].error == ""
        assert len(driver.unprepared) == 1
    assert kubelet_node.specs() == []


async def test_one_claim_fails_and_the_others_do_not(kubelet_node: Node) -> None:
    driver = Lamps()

    async def burn(claim: Claim) -> None:
        if claim.devices[0].device == "lamp-1":
            raise RuntimeError("it burns")

    driver.on_prepare = burn
    async with kubelet_node.plugin(driver) as plugin:
        good, bad = await kubelet_node.claim("lamp-0"), await kubelet_node.claim("lamp-1")
        gone = {"namespace": "default", "name": "gone", "uid": "u-1"}
        replaced = {**good, "uid": "u-2"}
        elsewhere = await kubelet_node.claim({"device": "x", "driver": "other.example.com"})
        answered = await plugin.prepare(good, bad, gone, replaced, elsewhere)
        errors = {uid: each.error for uid, each in answered.items()}
        assert errors[good["uid"]] == ""
        assert errors[bad["uid"]].endswith("RuntimeError: it burns")
        assert errors["u-1"] == "claim default/gone (u-1) does not exist"
        assert f"got replaced: the one of that name has uid {good['uid']}" in errors["u-2"]
        assert "has no devices of driver lamps.example.com" in errors[elsewhere["uid"]]
        # What was begun is undone by unprepare.
        assert sorted(kubelet_node.records()) == sorted([good["uid"], bad["uid"]])
        await plugin.unprepare(bad)
        assert [(each.reference.uid, each.is_complete) for each in driver.unprepared] == [(bad["uid"], False)]


async def test_a_claim_that_is_not_allocated_is_refused(kubelet_node: Node) -> None:
    async with kubelet_node.plugin(Lamps()) as plugin:
        made = await kubelet_node.cluster.create(objects.claim("waiting"))
        reference = {"namespace": "default", "name": "waiting", "uid": made["metadata"]["uid"]}
        answered = await plugin.prepare(reference)
        assert answered[reference["uid"]].error.endswith("is not allocated")


async def test_unprepare_that_fails_is_told_and_tried_again(kubelet_node: Node) -> None:
    driver = Lamps()
    failures = [RuntimeError("busy")]

    async def fail_once(claim: PreparedClaim) -> None:
        if failures:
            raise failures.pop()

    driver.on_unprepare = fail_once
    async with kubelet_node.plugin(driver) as plugin:
        claim = await kubelet_node.claim("lamp-0")
        await plugin.prepare(claim)
        assert "busy" in (await plugin.unprepare(claim))[claim["uid"]].error
        assert kubelet_node.records() == [claim["uid"]]
        assert (await plugin.unprepare(claim))[claim["uid"]].error == ""
    assert kubelet_node.specs() == []


class Brightness(Config):
    api_version = "lamps.example.com/v1"
    level: int


class Dimmable(Lamps):
    configs = (Brightness,)


async def test_configuration_is_decoded_before_a_device_is_touched(kubelet_node: Node) -> None:
    def config(**parameters: object) -> dict[str, object]:
        typed = {"apiVersion": "lamps.example.com/v1", "kind": "Brightness", **parameters}
        return {"source": "FromClaim", "opaque": {"driver": NAME, "parameters": typed}}

    driver = Dimmable()
    async with kubelet_node.plugin(driver) as plugin:
        good = await kubelet_node.claim("lamp-0", config=[config(level=3)])
        bad = await kubelet_node.claim("lamp-1", config=[config(level=3, lvel=4)])
        answered = await plugin.prepare(good, bad)
    assert answered[good["uid"]].error == ""
    assert "config[0].opaque.parameters (FromClaim)" in answered[bad["uid"]].error
    assert "unknown field `lvel`" in answered[bad["uid"]].error
    (prepared,) = driver.prepared
    assert prepared.devices[0].config(Brightness) == Brightness(level=3)
    assert kubelet_node.records() == [good["uid"]]


async def test_shares_and_admin_access(kubelet_node: Node) -> None:
    share = "c1f8b3a0-0000-4000-8000-000000000001"
    admins = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await kubelet_node.cluster.patch("Namespace", "default", admins)
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        shared = await kubelet_node.claim({"device": "lamp-0", "shareID": share, "consumedCapacity": {"light": "2"}})
        admin = await kubelet_node.claim({"device": "lamp-0", "adminAccess": True, "request": "watch/all"})
        answered = await plugin.prepare(shared, admin)
        assert {each.error for each in answered.values()} == {""}
        assert answered[shared["uid"]].devices[0].share_id == share
        assert not answered[admin["uid"]].devices[0].HasField("share_id")
        # Containers know requests by their base name.
        assert list(answered[admin["uid"]].devices[0].request_names) == ["watch"]
        assert not hasattr((await plugin.prepare(shared, version="v1beta1"))[shared["uid"]].devices[0], "share_id")
    by_uid = {each.uid: each.devices[0] for each in driver.prepared}
    assert by_uid[shared["uid"]].consumed_capacity == {"light": "2"}
    assert by_uid[admin["uid"]].admin_access


async def test_a_device_is_not_handed_out_twice(kubelet_node: Node) -> None:
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        first, second = await kubelet_node.claim("lamp-0"), await kubelet_node.claim("lamp-0")
        await plugin.prepare(first)
        error = (await plugin.prepare(second))[second["uid"]].error
        assert error == f"device node-1/lamp-0 is still prepared for claim default/{first['name']} ({first['uid']})"
        # The record of a claim that is gone holds nothing up.
        await kubelet_node.cluster.delete("ResourceClaim", first["name"])
        assert (await plugin.prepare(second))[second["uid"]].error == ""
        assert [each.reference.uid for each in driver.unprepared] == [first["uid"]]
        assert kubelet_node.records() == [second["uid"]]


async def test_claims_are_prepared_one_at_a_time_unless_the_driver_says_otherwise(kubelet_node: Node) -> None:
    class Parallel(Lamps):
        serialize = False

    for driver, expected in ((Lamps(), 1), (Parallel(), 3)):
        running = most = 0

        async def count(claim: Claim) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            for _ in range(20):
                await asyncio.sleep(0)
            running -= 1

        driver.on_prepare = count
        async with kubelet_node.plugin(driver) as plugin:
            claims = [await kubelet_node.claim(f"lamp-{number}") for number in range(3)]
            await plugin.prepare(*claims)
            await plugin.unprepare(*claims)
        assert most == expected


async def hanging(node: Node, driver: Lamps, plugin: Any, record: Any = None) -> tuple[Any, asyncio.Task[Any]]:
    """A claim, and the call that prepares it: it has begun and will not end."""
    begun = asyncio.Event()

    async def hang(claim: Claim) -> None:
        if record:
            await claim.record(record)
        begun.set()
        await asyncio.Event().wait()

    driver.on_prepare = hang
    claim = await node.claim("lamp-0")
    call = asyncio.create_task(plugin.prepare(claim))
    await begun.wait()
    return claim, call


async def test_a_prepare_that_the_kubelet_gave_up_is_cancelled_and_undone(kubelet_node: Node) -> None:
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        claim, call = await hanging(kubelet_node, driver, plugin, record={"half": "done"})
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await plugin.unprepare(claim))[claim["uid"]].error == ""
        assert [(each.state, each.is_complete) for each in driver.unprepared] == [({"half": "done"}, False)]
        assert (kubelet_node.specs(), kubelet_node.records()) == ([], [])


async def test_unprepare_interrupts_a_prepare_of_the_same_claim(kubelet_node: Node) -> None:
    driver = Lamps()
    async with kubelet_node.plugin(driver) as plugin:
        claim, call = await hanging(kubelet_node, driver, plugin)
        assert (await plugin.unprepare(claim))[claim["uid"]].error == ""
        assert (await call)[claim["uid"]].error.endswith("was unprepared while it was being prepared")
        assert (kubelet_node.specs(), kubelet_node.records()) == ([], [])


async def test_a_prepare_that_ends_after_an_unprepare_by_another_instance_leaves_nothing(kubelet_node: Node) -> None:
    class Parallel(Lamps):
        serialize = False

    old, new, begun, go_on = Parallel(), Parallel(), asyncio.Event(), asyncio.Event()

    async def wait(claim: Claim) -> None:
        begun.set()
        await go_on.wait()

    old.on_prepare = wait
    async with kubelet_node.plugin(old, pod_uid="old") as first, kubelet_node.plugin(new, pod_uid="new") as second:
        claim = await kubelet_node.claim("lamp-0")
        call = asyncio.create_task(first.prepare(claim))
        await begun.wait()
        assert (await second.unprepare(claim))[claim["uid"]].error == ""
        go_on.set()
        assert (await call)[claim["uid"]].error.endswith("was unprepared while it was being prepared")
        # The old instance has undone its own work.
        assert [each.state for each in old.unprepared] == [{"lamps": ["lamp-0"]}]
        assert (kubelet_node.specs(), kubelet_node.records()) == ([], [])


async def test_two_instances_of_a_rolling_update_exclude_each_other(kubelet_node: Node) -> None:
    old, new, begun, go_on = Lamps(), Lamps(), asyncio.Event(), asyncio.Event()

    async def wait(claim: Claim) -> None:
        begun.set()
        await go_on.wait()

    old.on_prepare = wait
    async with kubelet_node.plugin(old, pod_uid="old") as first, kubelet_node.plugin(new, pod_uid="new") as second:
        one, other = await kubelet_node.claim("lamp-0"), await kubelet_node.claim("lamp-1")
        call = asyncio.create_task(first.prepare(one))
        await begun.wait()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await second.prepare(other, timeout=0.3)
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert new.prepared == []
        go_on.set()
        await call
        assert (await second.prepare(other))[other["uid"]].error == ""
        # The records are shared: the new one can undo what the old one did.
        assert (await second.unprepare(one))[one["uid"]].error == ""
        assert [each.state for each in new.unprepared] == [{"lamps": ["lamp-0"]}]


async def test_a_driver_that_answers_with_a_foreign_device_fails_the_claim(kubelet_node: Node) -> None:
    class Wrong(Lamps):
        async def prepare(self, claim: Claim) -> Prepared:
            return Prepared([PreparedDevice(replace(claim.devices[0], device="lamp-9"))])

    async with kubelet_node.plugin(Wrong()) as plugin:
        claim = await kubelet_node.claim("lamp-0")
        error = (await plugin.prepare(claim))[claim["uid"]].error
        assert "answered device node-1/lamp-9 of request lamp, which is not allocated to it" in error
