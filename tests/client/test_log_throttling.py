import asyncio
import logging

from dray.client.errors import ApiError, ConnectionFailed, Garbled
from dray.client.log_throttling import ThrottledLog, cause_of

LOGGER = logging.getLogger("dray.test")


async def test_the_first_is_said_at_once_and_then_how_many_there_were(caplog, virtual_time):
    throttled = ThrottledLog(LOGGER, period=0.1)
    for number in range(500):
        throttled.warning("slow", "Pod default/p-%d: slow", number)
    throttled.warning("refused", "Pod default/q: refused")
    assert [record.getMessage() for record in caplog.records] == ["Pod default/p-0: slow", "Pod default/q: refused"]
    await asyncio.sleep(0.35)
    assert [record.getMessage() for record in caplog.records][2:] == ["Pod default/p-499: slow (499 times in 0.1 s)"]
    throttled.warning("slow", "Pod default/r: slow")
    assert caplog.records[-1].getMessage() == "Pod default/r: slow"


async def test_causes_without_end_are_bounded(caplog):
    throttled = ThrottledLog(LOGGER)
    for number in range(1000):
        throttled.warning(number, "%d", number)
    assert len(caplog.records) < 150


def test_a_cause_does_not_depend_on_the_object():
    def refused(name):
        return ApiError(403, "Forbidden", f'pods "{name}" is forbidden', {"name": name, "kind": "pods"})

    assert cause_of(refused("a")) == cause_of(refused("b"))
    assert cause_of(refused("a")) != cause_of(ApiError(403, "Forbidden", "no", {"kind": "nodes"}))
    lost = [ConnectionFailed(f"GET /{name}: reset", sent=True, cause="reset") for name in "ab"]
    assert cause_of(lost[0]) == cause_of(lost[1]) != cause_of(Garbled("x"))
