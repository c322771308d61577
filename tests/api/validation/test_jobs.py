"""Jobs: defaults, counts and modes, policies, what may change, and their status."""

import pytest

from dray.api.gates import DEFAULT_GATES
from dray.api.intake import Accepted
from tests.api.objects import JOB, causes, changed, create, update

INDEXED = changed(JOB, {"spec.completionMode": "Indexed", "spec.completions": 5})
LABELS = {"batch.kubernetes.io/controller-uid": "1"}
STORED = changed(INDEXED, {"spec.selector.matchLabels": LABELS, "spec.template.metadata.labels": LABELS})
EXIT_CODES = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 42]}}
CONDITIONS = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def spec_of(document):
    verdict = create(document)
    assert isinstance(verdict, Accepted), verdict
    return verdict.object["spec"]


class TestDefaults:
    def test_a_job_of_one_pod(self):
        spec = spec_of(JOB)
        assert {name: spec[name] for name in spec if name != "template"} == {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed",
        }

    def test_parallelism_alone_is_a_work_queue(self):
        assert "completions" not in spec_of(changed(JOB, {"spec.parallelism": 3}))

    def test_a_limit_for_each_index_lifts_the_one_for_all(self):
        assert spec_of(changed(INDEXED, {"spec.backoffLimitPerIndex": 1}))["backoffLimit"] == 2**31 - 1

    def test_a_failure_policy_waits_for_pods_to_end(self):
        spec = spec_of(changed(JOB, {"spec.podFailurePolicy": {"rules": [CONDITIONS]}}))
        assert spec["podReplacementPolicy"] == "Failed"
        assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"] == [
            {"type": "DisruptionTarget", "status": "True"}
        ]

    def test_the_template_leaves_requests_to_its_pods(self):
        limits = {"limits": {"cpu": "1"}}
        template = spec_of(changed(JOB, {"spec.template.spec.containers.0.resources": limits}))["template"]["spec"]
        assert template["containers"][0]["resources"] == limits
        assert template["dnsPolicy"] == "ClusterFirst"
        assert "enableServiceLinks" not in template

    def test_labels_come_from_the_template(self):
        verdict = create(changed(JOB, {"spec.template.metadata.labels": {"app": "x"}}))
        assert verdict.object["metadata"]["labels"] == {"app": "x"}

    def test_scheduling_needs_its_gate(self):
        job = changed(JOB, {"spec.scheduling": {"schedulingPolicy": {"basic": {}}}})
        assert "scheduling" in spec_of(job)
        assert "scheduling" not in create(job, gates=DEFAULT_GATES).object["spec"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.parallelism": -1}, {"spec.parallelism Invalid"}),
        ({"spec.completions": -1}, {"spec.completions Invalid"}),
        ({"spec.backoffLimit": -1}, {"spec.backoffLimit Invalid"}),
        ({"spec.ttlSecondsAfterFinished": -1}, {"spec.ttlSecondsAfterFinished Invalid"}),
        ({"spec.activeDeadlineSeconds": -1}, {"spec.activeDeadlineSeconds Invalid"}),
        ({"spec.completionMode": "Sorted"}, {"spec.completionMode NotSupported"}),
        ({"spec.completionMode": "Indexed", "spec.parallelism": 2}, {"spec.completions Required"}),
        ({"spec.backoffLimitPerIndex": 1}, {"spec.backoffLimitPerIndex Invalid"}),
        ({"spec.successPolicy": {"rules": [{"succeededCount": 1}]}}, {"spec.successPolicy Invalid"}),
        ({"spec.managedBy": "example.com/me"}, set()),
        ({"spec.managedBy": "me"}, {"spec.managedBy Invalid"}),
        ({"spec.podReplacementPolicy": "Never"}, {"spec.podReplacementPolicy NotSupported"}),
        ({"spec.template.spec.restartPolicy": "OnFailure"}, set()),
        ({"spec.template.spec.restartPolicy": "Always"}, {"spec.template.spec.restartPolicy Required"}),
        ({"spec.template.spec.restartPolicy": None}, {"spec.template.spec.restartPolicy Required"}),
        ({"spec.template.spec.containers": []}, {"spec.template.spec.containers Required"}),
        ({"spec.template.metadata.labels": {"-": ""}}, {"metadata.labels Invalid", "spec.template.labels Invalid"}),
        ({"spec.manualSelector": True}, {"spec.selector Required"}),
        (
            {"spec.manualSelector": True, "spec.selector": {"matchLabels": {"a": "b"}}},
            {"spec.template.metadata.labels Invalid"},
        ),
        (
            {
                "spec.manualSelector": True,
                "spec.selector": {"matchLabels": {"a": "b"}},
                "spec.template.metadata.labels": {"a": "b"},
            },
            set(),
        ),
    ],
)
def test_jobs(changes, expected):
    assert causes(create(changed(JOB, changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 2}, set()),
        ({"spec.maxFailedIndexes": 2}, {"spec.backoffLimitPerIndex Required"}),
        ({"spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 6}, {"spec.maxFailedIndexes Invalid"}),
        ({"spec.parallelism": 100_001}, {"spec.parallelism Invalid"}),
        ({"spec.completions": 100_001, "spec.backoffLimitPerIndex": 1}, {"spec.maxFailedIndexes Required"}),
        ({"metadata.name": "j" * 62}, {"metadata.name Invalid"}),
        ({"spec.successPolicy": {"rules": []}}, {"spec.successPolicy.rules Required"}),
        ({"spec.successPolicy": {"rules": [{}]}}, {"spec.successPolicy.rules[0] Required"}),
        ({"spec.successPolicy": {"rules": [{"succeededIndexes": "0,2-4", "succeededCount": 4}]}}, set()),
    ],
)
def test_indexed_jobs(changes, expected):
    assert causes(create(changed(INDEXED, changes))) == expected


@pytest.mark.parametrize("indexes", ["x", "3-2", "2,2", "5", "0-9", "-1", "1-", "2-2"])
def test_indexes_that_are_none(indexes):
    rule = {"succeededIndexes": indexes}
    found = causes(create(changed(INDEXED, {"spec.successPolicy": {"rules": [rule]}})))
    assert found == {"spec.successPolicy.rules[0].succeededIndexes Invalid"}


@pytest.mark.parametrize("rule", [{"succeededCount": 6}, {"succeededCount": 3, "succeededIndexes": "1-2"}])
def test_more_successes_than_indexes(rule):
    found = causes(create(changed(INDEXED, {"spec.successPolicy": {"rules": [rule]}})))
    assert found == {"spec.successPolicy.rules[0].succeededCount Invalid"}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (EXIT_CODES, set()),
        (CONDITIONS, set()),
        ({**EXIT_CODES, **CONDITIONS}, {" Invalid"}),
        ({"action": "Count"}, {" Invalid"}),
        ({**CONDITIONS, "action": "Retry"}, {".action NotSupported"}),
        ({**CONDITIONS, "action": "FailIndex"}, {".action Invalid"}),
        ({"action": "Count", "onPodConditions": [{"type": "a b"}]}, {".onPodConditions[0].type Invalid"}),
        (changed(EXIT_CODES, {"onExitCodes.values": []}), {".onExitCodes.values Invalid"}),
        (changed(EXIT_CODES, {"onExitCodes.values": [0]}), {".onExitCodes.values[0] Invalid"}),
        (changed(EXIT_CODES, {"onExitCodes.values": [2, 1]}), {".onExitCodes.values Invalid"}),
        (changed(EXIT_CODES, {"onExitCodes.values": [1, 1]}), {".onExitCodes.values[1] Duplicate"}),
        (changed(EXIT_CODES, {"onExitCodes.containerName": "other"}), {".onExitCodes.containerName Invalid"}),
        (changed(EXIT_CODES, {"onExitCodes.operator": "Above"}), {".onExitCodes.operator NotSupported"}),
    ],
)
def test_failure_policies(rule, expected):
    found = causes(create(changed(JOB, {"spec.podFailurePolicy": {"rules": [rule]}})))
    assert found == {"spec.podFailurePolicy.rules[0]" + cause for cause in expected}


def test_a_failure_policy_needs_pods_that_fail():
    job = changed(
        JOB, {"spec.podFailurePolicy": {"rules": [EXIT_CODES]}, "spec.template.spec.restartPolicy": "OnFailure"}
    )
    assert causes(create(job)) == {"spec.template.spec.restartPolicy Invalid"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.parallelism": 0, "spec.suspend": True, "spec.backoffLimit": 1}, set()),
        ({"spec.ttlSecondsAfterFinished": 5, "spec.activeDeadlineSeconds": 5}, set()),
        ({"spec.completions": 7}, {"spec.completions Invalid"}),
        ({"spec.completions": 7, "spec.parallelism": 7}, set()),
        ({"spec.completionMode": "NonIndexed"}, {"spec.completionMode Invalid"}),
        ({"spec.managedBy": "example.com/me"}, {"spec.managedBy Invalid"}),
        ({"spec.template.spec.containers.0.image": "other"}, {"spec.template Invalid"}),
        ({"spec.template.spec.nodeSelector": {"a": "b"}}, {"spec.template Invalid"}),
        ({"spec.selector": None}, {"spec.selector Required", "spec.selector Invalid"}),
    ],
)
def test_updates(changes, expected):
    assert causes(update(changed(STORED, changes), STORED)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.template.spec.nodeSelector": {"a": "b"}}, set()),
        ({"spec.template.metadata.annotations": {"a": "b"}}, set()),
        ({"spec.template.spec.affinity": {"nodeAffinity": {}}}, set()),
        ({"spec.template.spec.affinity": {"podAffinity": {}}}, {"spec.template Invalid"}),
        ({"spec.template.spec.containers.0.resources": {"requests": {"cpu": "1"}}}, set()),
        ({"spec.template.spec.containers.0.image": "other"}, {"spec.template Invalid"}),
    ],
)
def test_a_suspended_job_can_be_directed(changes, expected):
    suspended = changed(STORED, {"spec.suspend": True})
    assert causes(update(changed(suspended, changes), suspended)) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"active": 1, "ready": 0}, set()),
        ({"active": -1}, {"status.active Invalid"}),
        ({"conditions": [{"type": "Complete", "status": "True"}], "completionTime": "2026-01-01T00:00:00Z"}, set()),
        ({"completionTime": "2026-01-01T00:00:00Z"}, {"status.completionTime Invalid"}),
        (
            {"conditions": [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "True"}]},
            {"status.conditions Invalid"},
        ),
    ],
)
def test_status(status, expected):
    assert causes(update(changed(STORED, {"status": status}), STORED, "status")) == expected


def test_what_is_complete_stays_complete():
    complete = changed(STORED, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    assert causes(update(changed(complete, {"status": {"active": 1}}), complete, "status")) == {
        "status.conditions Invalid"
    }


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"basic": {}}, set()),
        ({"gang": {}}, set()),
        ({"gang": {"minCount": 2}}, set()),
        ({"gang": {"minCount": 3}}, {".gang.minCount Invalid"}),
        ({"gang": {"minCount": 0}}, {".gang.minCount Invalid"}),
        ({}, {" Invalid"}),
        ({"basic": {}, "gang": {}}, {" Invalid"}),
    ],
)
def test_how_the_pods_of_a_job_are_scheduled(policy, expected):
    path = "spec.scheduling.schedulingPolicy"
    found = causes(create(changed(JOB, {"spec.parallelism": 2, path: policy})))
    assert {cause.removeprefix(path) for cause in found} == expected
