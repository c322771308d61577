"""The pure parts of the Job controller."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.client.clock import timestamp
from dray.controllers.jobs.accounting import settle
from dray.controllers.jobs.indexes import Indexes
from dray.controllers.jobs.plan import Record
from dray.controllers.jobs.spec import JobSpec
from dray.controllers.jobs.template import pod as pod_of
from dray.controllers.jobs.view import JobView

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([7, 1, 3, 4, 5, 9, 10], "1,3-5,7,9,10")],
)
def test_indexes_are_written_as_kubernetes_writes_them(numbers, text):
    assert str(Indexes.of(numbers)) == text
    assert Indexes.parse(text) == Indexes.of(numbers)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_indexes_are_a_set(left, right, below):
    first, second = Indexes.of(left), Indexes.of(right)
    union = first | second
    assert [each in union for each in range(61)] == [each in left | right for each in range(61)]
    assert union.total == len(left | right)
    assert first.common(second) == len(left & right)
    assert list(first.missing(below)) == [each for each in range(below) if each not in left]
    assert Indexes.parse(str(first), below=below) == Indexes.of(each for each in left if each < below)


def test_nonsense_among_indexes_is_passed_over():
    assert str(Indexes.parse("1,x,3-,-4,5-2,7")) == "1,3,7"


def ended(seconds):
    terminated = {"finishedAt": timestamp(NOW + timedelta(seconds=seconds))}
    return {"metadata": {}, "status": {"containerStatuses": [{"state": {"terminated": terminated}}]}}


@pytest.mark.parametrize(("failures", "wait"), [(0, 0), (1, 10), (2, 20), (6, 320), (7, 600), (100, 600)])
def test_the_wait_doubles_up_to_ten_minutes(failures, wait):
    record = Record().after([], [ended(0) for _ in range(failures)])
    assert record.remaining(NOW) == wait
    assert record.remaining(NOW + timedelta(seconds=4)) == max(0, wait - 4)


def test_a_success_forgives_the_failures_before_it():
    record = Record().after([], [ended(0), ended(1)])
    assert record.after([ended(5)], [ended(3)]).failures == 0
    later = record.after([ended(5)], [ended(3), ended(6)])
    assert (later.failures, later.last) == (1, NOW + timedelta(seconds=6))


def test_listed_pods_are_counted_once_they_are_let_go():
    status = {"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a", "b"], "failed": ["c"]}}
    assert settle(status, {"b"}) == {"succeeded": 2, "failed": 1, "uncountedTerminatedPods": {"succeeded": ["b"]}}
    assert settle({}, set()) == {"uncountedTerminatedPods": {}}


def bare(**spec):
    metadata = {"name": "work", "namespace": "default", "uid": "u"}
    return {"metadata": metadata, "spec": {"template": {"spec": {}}, **spec}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (1, 1, 6)),
        ({"parallelism": 3}, (3, None, 6)),
        ({"completions": 3}, (1, 3, 6)),
        ({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}, (1, 2, 2**31 - 1)),
        ({"parallelism": 0, "completions": 2, "backoffLimit": 0}, (0, 2, 0)),
    ],
)
def test_defaults_that_a_server_did_not_fill_in(spec, expected):
    found = JobSpec.of(bare(**spec))
    assert (found.parallelism, found.completions, found.backoff_limit) == expected


def test_the_job_waits_for_pods_to_end_where_it_has_a_failure_policy():
    assert not JobSpec.of(bare()).replaces_ended_only
    assert JobSpec.of(bare(podFailurePolicy={"rules": []})).replaces_ended_only


def test_long_names_keep_their_index_and_own_selectors_no_labels():
    job = bare(completionMode="Indexed", completions=20_000, manualSelector=True)
    job["metadata"]["name"] = "n" * 63
    made = pod_of(JobView.of(job, []), 12_345)
    assert len(made["metadata"]["name"]) == 63
    assert "-12345-" in made["metadata"]["name"]
    assert list(made["metadata"]["labels"]) == ["batch.kubernetes.io/job-completion-index"]


def indexed_pod(uid, index, phase, failures):
    annotations = {
        "batch.kubernetes.io/job-completion-index": str(index),
        "batch.kubernetes.io/job-index-failure-count": str(failures),
    }
    metadata = {"uid": uid, "annotations": annotations, "finalizers": ["batch.kubernetes.io/job-tracking"]}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase}}


def test_no_index_both_fails_and_succeeds():
    job = bare(completionMode="Indexed", completions=2, backoffLimitPerIndex=0)
    both = [indexed_pod("a", 0, "Failed", 0), indexed_pod("b", 0, "Succeeded", 0)]
    view = JobView.of(job, both)
    assert (str(view.succeeded_indexes), str(view.failed_indexes)) == ("0", "")
    view = JobView.of({**job, "status": {"failedIndexes": "0"}}, both)
    assert (str(view.succeeded_indexes), str(view.failed_indexes)) == ("", "0")
