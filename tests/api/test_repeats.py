"""Long lists are compared in linear time; 100,000 items took minutes when each was compared with all others."""

import time

import pytest

from dray.api.repeats import contains_all, repeats
from dray.api.validation import certificate_requests, pod_affinity

SECONDS = 10.0
NUMBER = 50_000


def test_items_that_came_before_are_repeats():
    assert list(repeats("abca")) == [False, False, False, True]


@pytest.mark.parametrize(
    ("larger", "smaller", "contains"),
    [
        ([], [], True),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}], True),
        ([{"a": 1}], [{"a": "1"}], False),
        ([], [{"a": 1}], False),
    ],
)
def test_a_list_contains_another_whatever_the_order(larger, smaller, contains):
    assert contains_all(larger, smaller) is contains


@pytest.fixture(autouse=True)
def bounded():
    started = time.process_time()
    yield
    assert time.process_time() - started < SECONDS


def test_many_spread_constraints():
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**constraint, "topologyKey": f"k{number}"} for number in range(NUMBER)]
    assert list(pod_affinity.validate_spread(constraints, "spec")) == []
    (found,) = pod_affinity.validate_spread([*constraints, constraints[0]], "spec")
    assert found.field == f"spec[{NUMBER}].{{topologyKey, whenUnsatisfiable}}"


def test_many_tolerations_of_a_pod_that_is_updated():
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(NUMBER)]
    assert contains_all(list(map(dict, tolerations)), tolerations)
    assert not contains_all(tolerations[1:], tolerations)


def test_many_usages_of_a_certificate():
    request = {"spec": {"usages": [f"u{number}" for number in range(NUMBER)], "signerName": "a.b/c"}}
    found = [each.type.value for each in certificate_requests.validate(request, None)]
    assert "FieldValueDuplicate" not in found
