"""Numbers that clients write as text may be longer than Python reads."""

import pytest

from dray.api import errors
from dray.api.validation import rolling_updates
from dray.controllers.disruption.budget import scaled
from dray.controllers.jobs.indexes import Indexes
from dray.controllers.jobs.pods import completion_index, failure_count
from dray.server import selection
from dray.server.status import ApiError

LONG = "9" * 5000


def pod(**annotations):
    return {"metadata": {"annotations": {f"batch.kubernetes.io/{name}": value for name, value in annotations.items()}}}


def test_of_completed_indexes_the_others_are_read():
    assert Indexes.parse(f"1,{LONG},3-{LONG},5-6") == Indexes.parse("1,5-6")


def test_annotations_of_pods():
    assert completion_index(pod(**{"job-completion-index": LONG})) is None
    assert completion_index(pod(**{"job-completion-index": "7"})) == 7
    assert failure_count(pod(**{"job-index-failure-count": LONG})) == 0


def test_percentages_of_budgets():
    assert scaled(f"{LONG}%", 10) == 0
    assert scaled("25%", 10) == 3
    (found,) = rolling_updates.amount(f"{LONG}%", "spec.minAvailable")
    assert found.type is errors.invalid("x", 1, "").type


def test_bounds_in_label_selectors():
    with pytest.raises(ApiError) as refusal:
        selection.parse_labels(f"a>{LONG}")
    assert refusal.value.code == 400
    (above,) = selection.parse_labels("a>5")
    assert above({"a": "6"})
    assert not above({"a": "x"})
