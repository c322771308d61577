"""CronJobs: defaults, schedules, time zones and the jobs they make."""

import pytest

from dray.testing import objects
from tests.api.objects import causes, changed, create, update

CRON_JOB = changed(objects.cron_job("c", "*/5 * * * *"), {"metadata.namespace": "default"})
TEMPLATE = "spec.jobTemplate.spec"
ZONED = changed(CRON_JOB, {"spec.schedule": "TZ=UTC 0 * * * *"})


def test_defaults():
    spec = create(CRON_JOB).object["spec"]
    assert {name: spec[name] for name in spec if name not in ("schedule", "jobTemplate")} == {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    job = spec["jobTemplate"]["spec"]
    assert job["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "backoffLimit" not in job, "a job gets its own defaults when it is made"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"spec.timeZone": "Europe/Berlin"}, set()),
        ({"spec.timeZone": ""}, {"spec.timeZone Invalid"}),
        ({"spec.timeZone": "Local"}, {"spec.timeZone Invalid"}),
        ({"spec.timeZone": "Nowhere"}, {"spec.timeZone Invalid"}),
        ({"spec.schedule": ""}, {"spec.schedule Required"}),
        ({"spec.schedule": "often"}, {"spec.schedule Invalid"}),
        ({"spec.schedule": "TZ=UTC 0 * * * *"}, {"spec.schedule Invalid"}),
        ({"spec.concurrencyPolicy": "Maybe"}, {"spec.concurrencyPolicy NotSupported"}),
        ({"spec.startingDeadlineSeconds": -1}, {"spec.startingDeadlineSeconds Invalid"}),
        ({"spec.failedJobsHistoryLimit": -1}, {"spec.failedJobsHistoryLimit Invalid"}),
        ({"metadata.name": "n" * 52}, set()),
        ({"metadata.name": "n" * 53}, {"metadata.name Invalid"}),
        ({f"{TEMPLATE}.parallelism": -1}, {f"{TEMPLATE}.parallelism Invalid"}),
        ({f"{TEMPLATE}.selector": {"matchLabels": {"a": "b"}}}, {f"{TEMPLATE}.selector Invalid"}),
        ({f"{TEMPLATE}.manualSelector": True}, {f"{TEMPLATE}.manualSelector NotSupported"}),
        (
            {f"{TEMPLATE}.template.spec.restartPolicy": "Always"},
            {f"{TEMPLATE}.template.spec.restartPolicy Required"},
        ),
        ({f"{TEMPLATE}.template.spec.containers": []}, {f"{TEMPLATE}.template.spec.containers Required"}),
    ],
)
def test_cron_jobs(changes, expected):
    assert causes(create(changed(CRON_JOB, changes))) == expected


def test_a_stored_schedule_with_a_zone_may_stay():
    assert causes(update(changed(ZONED, {"spec.suspend": True}), ZONED)) == set()
    assert causes(update(changed(ZONED, {"spec.timeZone": "UTC"}), ZONED)) == {"spec.schedule Invalid"}
    assert causes(update(ZONED, CRON_JOB)) == {"spec.schedule Invalid"}
