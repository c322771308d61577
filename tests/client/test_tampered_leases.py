"""Leases that somebody else has changed, and clocks that are set: there is a leader again, and never two."""

import pytest

from dray.client.interface import GroupVersionResource
from tests.client.test_election import Clock, contest, some_rounds, until

LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
MOST = 2**31 - 1
__all__ = ["contest"]


async def tamper(contest, **spec):
    await contest.client.patch(LEASES, "dray", {"spec": spec}, namespace="kube-system")


async def test_a_lease_of_a_stranger_that_is_to_last_for_years_is_taken_after_minutes(contest):
    leader = await contest.leader("a")
    await tamper(contest, holderIdentity="stranger", leaseDurationSeconds=MOST, renewTime="9999-01-01T00:00:00.000000Z")
    await until(lambda: contest.leaders == [])
    await leader.stop()
    contest.candidate("b")
    await contest.at(30)
    assert contest.leaders == []
    await contest.at(700)
    await contest.led_by("b")
    spec = await contest.lease()
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("b", 15)


@pytest.mark.parametrize("transitions", [MOST, MOST - 1, 0])
async def test_a_lease_whose_transitions_are_used_up_can_be_taken(contest, transitions):
    leader = await contest.leader("a")
    await leader.stop()
    await tamper(contest, holderIdentity="stranger", leaseTransitions=transitions, leaseDurationSeconds=1)
    contest.candidate("b")
    await some_rounds()
    await contest.at(2)
    await contest.led_by("b")
    assert (await contest.lease())["leaseTransitions"] == min(transitions + 1, MOST)


async def test_a_leader_whose_lease_is_deleted_goes_on(contest):
    await contest.leader("a")
    await contest.client.delete(LEASES, "dray", namespace="kube-system")
    await contest.at(3)
    await until(lambda: contest.leaders == ["a"])
    contest.candidate("b")
    await some_rounds()
    assert contest.leaders == ["a"]
    assert (await contest.lease())["holderIdentity"] == "a"


class WrongClock(Clock):
    """The time of day is other than it should be; the time that passes is not."""

    offset = 0.0

    def now(self):
        seconds, self.seconds = self.seconds, self.seconds + self.offset
        try:
            return super().now()
        finally:
            self.seconds = seconds


@pytest.mark.parametrize("jump", [-400 * 24 * 3600.0, -60.0, 60.0, 400 * 24 * 3600.0])
async def test_a_clock_that_is_set_neither_ends_a_leader_nor_makes_two(contest, jump):
    clock = WrongClock()
    contest.clock = clock
    await contest.leader("a")
    contest.candidate("b")
    await contest.at(3)
    clock.offset = jump
    for seconds in range(4, 60, 4):
        await contest.at(seconds)
        assert contest.leaders == ["a"]
