"""Expected starts: by the limits of pods that run, and by how long earlier pods of their owner ran."""

from dray.api.times import text_of
from dray.planning.starting import Start, expected_starts
from dray.scheduling.scheduler import Options
from tests.planning.scenes import NOW, node, pod, running, scene, template

KEY = ("default", "p")


def starts(made, seconds=10.0):
    return expected_starts(made, Options(), seconds=seconds, clock=lambda: 0.0)


def holder(name="old", device="gpu-0", *, ago=600, **members):
    user, claim = running(name, "a", device, **members)
    user["status"]["startTime"] = text_of(NOW - ago)
    return [user, claim]


def finished(name, took):
    [made] = running(name, "a")
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": text_of(NOW - 50)}}}
    made["status"] = {"phase": "Succeeded", "startTime": text_of(NOW - 50 - took), "containerStatuses": [ended]}
    return made


def test_a_pod_starts_when_the_limit_of_another_is_over():
    made = scene(*node("a", 1), template(), *holder(activeDeadlineSeconds=3600), wanted=[pod("p")])
    assert starts(made) == {KEY: Start(NOW + 3000, NOW + 3000)}


def test_ends_come_one_after_the_other_until_there_is_room():
    old = [*holder("old", "gpu-0", activeDeadlineSeconds=1000), *holder("new", "gpu-1", activeDeadlineSeconds=2000)]
    made = scene(*node("a", 2), template("two", 2), *old, wanted=[pod("p", "two")])
    assert starts(made) == {KEY: Start(NOW + 1400, NOW + 1400)}


def test_earlier_runs_of_the_same_owner_give_an_earliest_time():
    limited = scene(
        *node("a", 1), template(), *holder(activeDeadlineSeconds=3600), finished("first", 900), wanted=[pod("p")]
    )
    assert starts(limited) == {KEY: Start(NOW + 300, NOW + 3000)}
    endless = scene(*node("a", 1), template(), *holder(), finished("first", 900), wanted=[pod("p")])
    assert starts(endless) == {KEY: Start(NOW + 300, None)}


def test_without_limits_and_without_time_nothing_is_known():
    assert starts(scene(*node("a", 1), template(), *holder(), wanted=[pod("p")])) == {}
    made = scene(*node("a", 1), template(), *holder(activeDeadlineSeconds=3600), wanted=[pod("p")])
    assert starts(made, seconds=0) == {}
