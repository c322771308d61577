"""CronJobs: what is decided, and what their users see."""

from datetime import UTC, datetime, timedelta

import pytest

from dray.api import cron
from dray.api.objects import controller_of
from dray.client.clock import timestamp
from dray.controllers.cron_jobs import history
from dray.controllers.cron_jobs.decision import decide
from dray.controllers.cron_jobs.missed import last_due
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests.controllers.jobs import Clock, reasons

HOUR = datetime(2026, 11, 17, 4, 0, tzinfo=UTC)


def cron_job(schedule="*/10 * * * *", *, made=HOUR, status=None, **spec):
    metadata = {"namespace": "default", "uid": "u", "creationTimestamp": timestamp(made)}
    return objects.cron_job("c", schedule, **metadata, **spec, status=status or {})


def job(name, *, end="", start="2026-11-17T04:00:00Z"):
    conditions = [{"type": end, "status": "True"}] if end else []
    status = {"startTime": start, "completionTime": start, "conditions": conditions}
    return objects.job(name, uid=name, status=status)


def at(minutes, seconds=0):
    return HOUR + timedelta(minutes=minutes, seconds=seconds)


def reason(decision):
    return [each[1] for each in decision.news]


class TestMissed:
    @pytest.mark.parametrize(
        ("schedule", "since", "now", "last", "many"),
        [
            ("*/10 * * * *", 0, 5, None, False),
            ("*/10 * * * *", 0, 10, 10, False),
            ("*/10 * * * *", 0, 35, 30, False),
            ("*/10 * * * *", 0, 1000, 1000, False),
            ("*/10 * * * *", 0, 1015, 1010, True),
            ("* * * * *", -5_000_000, 3, 3, True),
            ("* * * * *", -101, 0, 0, True),
            # In crowds: a minute's distance says nothing of the last one.
            ("* 3 * * *", -60_000, 0, -1, True),
            ("@every 7m", -70_001, 0, -1, True),
        ],
    )
    def test_the_last_time_it_was_due(self, schedule, since, now, last, many):
        expected = at(last) if last is not None else None
        assert last_due(cron.parse(schedule), at(since), at(now)) == (expected, many)

    def test_it_is_the_one_that_a_plain_walk_finds(self):
        for schedule in ("*/7 2-5 * * *", "0 0 1 * *", "3 4 * * 1,3", "59 23 31 12 *"):
            parsed, moment, last = cron.parse(schedule), at(-400 * 24 * 60), None
            since = moment
            while (moment := parsed.next(moment)) <= HOUR:
                last = moment
            assert last_due(parsed, since, HOUR).last == last, schedule


class TestDecision:
    def test_waits_for_its_time_and_starts_then(self):
        found = decide(cron_job(), at(9, 30))
        assert found.start is None
        assert found.wait == pytest.approx(30.1)
        assert decide(cron_job(), at(10)).start == at(10)

    def test_not_twice_for_one_time(self):
        assert decide(cron_job(status={"lastScheduleTime": timestamp(at(10))}), at(11)).start is None
        name = f"c-{int(at(10).timestamp()) // 60}"
        assert decide(cron_job(status={"active": [{"name": name}]}), at(11)).start is None

    def test_suspended_and_leaving_ones_start_nothing(self):
        assert decide(cron_job(suspend=True), at(10)) == decide(cron_job(suspend=True), at(5))
        leaving = cron_job()
        leaving["metadata"]["deletionTimestamp"] = timestamp(HOUR)
        assert decide(leaving, at(10)).start is None

    def test_after_the_deadline_it_is_too_late(self):
        assert decide(cron_job(startingDeadlineSeconds=60), at(10, 59)).start == at(10)
        late = decide(cron_job(startingDeadlineSeconds=60), at(11))
        assert late.start is None
        assert late.wait == pytest.approx(9 * 60 + 0.1)

    def test_what_runs_already(self):
        running = {"active": [{"name": "c-1", "uid": "1"}]}
        assert decide(cron_job(status=running), at(10)).start
        forbidden = decide(cron_job(status=running, concurrencyPolicy="Forbid"), at(10))
        assert (forbidden.start, reason(forbidden)) == (None, ["JobAlreadyActive"])
        replaced = decide(cron_job(status=running, concurrencyPolicy="Replace"), at(10))
        assert (replaced.start, replaced.replaces) == (at(10), True)

    def test_too_many_missed_times_are_told_and_the_last_one_runs(self):
        found = decide(cron_job("* * * * *", made=at(-10_000)), at(0))
        assert (found.start, reason(found)) == (HOUR, ["TooManyMissedTimes"])

    def test_time_zones(self):
        noon = cron_job("0 12 * * *", timeZone="Asia/Tokyo", made=at(-24 * 60))
        assert decide(noon, HOUR).start == datetime(2026, 11, 17, 3, 0, tzinfo=UTC)
        assert reason(decide(cron_job(timeZone="Nowhere"), at(10))) == ["UnknownTimeZone"]
        assert reason(decide(cron_job("often"), at(10))) == ["UnparseableSchedule"]


class TestHistory:
    def test_ended_jobs_leave_the_status(self):
        active = [{"name": "a", "uid": "a"}, {"name": "b", "uid": "b"}, {"name": "gone", "uid": "gone"}]
        found = history.observe(cron_job(status={"active": active}), [job("a"), job("b", end="Complete"), job("x")])
        assert found.status["active"] == [active[0], active[2]]
        assert found.status["lastSuccessfulTime"] == "2026-11-17T04:00:00Z"
        assert found.missing == [active[2]]
        assert [each[1] for each in found.news] == ["SawCompletedJob", "UnexpectedJob"]

    def test_what_names_no_job_leaves_the_status(self):
        found = history.observe(cron_job(status={"active": [{"uid": "a"}, {"name": "b"}, {}]}), [])
        assert (found.status.get("active"), found.missing) == (None, [])

    def test_the_oldest_ended_jobs_are_too_many(self):
        starts = [f"2026-11-17T0{hour}:00:00Z" for hour in range(5)]
        done = [job(f"d{number}", end="Complete", start=start) for number, start in enumerate(starts)]
        failed = [job(f"f{number}", end="Failed", start=start) for number, start in enumerate(starts[:2])]
        limits = cron_job(successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
        surplus = history.surplus(limits, [*reversed(done), *failed, job("running")])
        assert [each["metadata"]["name"] for each in surplus] == ["d0", "d1", "f0"]
        assert len(history.surplus(cron_job(successfulJobsHistoryLimit=0), done)) == 5


async def nudge(local, name="c"):
    await local.patch("CronJob", name, {"metadata": {"annotations": {"nudge": timestamp(local.time.now())}}})


async def jobs(local, number):
    async def enough():
        found = await local.list("Job")
        return sorted(found, key=lambda each: each["metadata"]["name"]) if len(found) == number else None

    return await local.eventually(enough)


async def finish(local, made, kind="Complete"):
    now = timestamp(local.time.now())
    ends = {"Complete": ("SuccessCriteriaMet", "Complete"), "Failed": ("FailureTarget", "Failed")}[kind]
    conditions = [{"type": each, "status": "True", "lastTransitionTime": now} for each in ends]
    status = {"conditions": conditions, "startTime": now, **({"completionTime": now} if kind == "Complete" else {})}
    await local.patch("Job", made["metadata"]["name"], {"status": status}, subresource="status")


async def state(local, wanted):
    async def holds():
        found = await local.get("CronJob", "c")
        return found if wanted(found.get("status") or {}) else None

    return await local.eventually(holds)


async def test_a_cron_job_makes_jobs_one_after_the_other_and_keeps_some():
    clock = Clock()
    async with LocalCluster(controllers=["cronjob"], time=clock) as local:
        template = objects.job("c", annotations={"note": "x"}, labels={"app": "c"})
        document = objects.cron_job(
            "c", "@every 2m", template, concurrencyPolicy="Forbid", successfulJobsHistoryLimit=1, timeZone="Asia/Tokyo"
        )
        made = await local.create(document)
        clock.advance(121)
        await nudge(local)
        (first,) = await jobs(local, 1)
        assert controller_of(first)["uid"] == made["metadata"]["uid"]
        assert first["metadata"]["labels"] == {"app": "c"}
        assert first["metadata"]["annotations"]["note"] == "x"
        assert first["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"].endswith("+09:00")
        found = await state(local, lambda status: status.get("active"))
        assert [each["name"] for each in found["status"]["active"]] == [first["metadata"]["name"]]
        clock.advance(121)
        await nudge(local)
        await local.eventually(lambda: _told(local, "JobAlreadyActive"))
        assert len(await local.list("Job")) == 1
        await finish(local, first)
        # The time that came while it ran is made up for.
        first, second = await jobs(local, 2)
        await state(local, lambda status: status.get("lastSuccessfulTime") and len(status["active"]) == 1)
        await finish(local, second)
        (left,) = await jobs(local, 1)
        assert left["metadata"]["name"] == second["metadata"]["name"]
        await state(local, lambda status: "active" not in status)
        assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= set(await reasons(local))


async def _told(local, wanted):
    return wanted in await reasons(local)


async def test_replace_deletes_what_runs_and_a_lost_status_makes_no_second_job():
    clock = Clock()
    async with LocalCluster(controllers=["cronjob"], time=clock) as local:
        await local.create(objects.cron_job("c", "@every 2m", concurrencyPolicy="Replace"))
        clock.advance(121)
        await nudge(local)
        (first,) = await jobs(local, 1)
        found = await state(local, lambda status: status.get("active"))
        # As after a crash between the Job and the status.
        await local.patch("CronJob", "c", {"status": {"active": None, "lastScheduleTime": None}}, subresource="status")
        again = await state(local, lambda status: status.get("active"))
        assert again["status"] == found["status"]
        assert len(await local.list("Job")) == 1
        clock.advance(121)
        await nudge(local)

        async def replaced():
            (one,) = await jobs(local, 1)
            return one["metadata"]["uid"] != first["metadata"]["uid"]

        await local.eventually(replaced)
