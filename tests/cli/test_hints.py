from __future__ import annotations

import pytest

from dray.answers.linting.hints import hint_for
from dray.api.catalogue import find
from dray.api.errors import ErrorType, FieldError

CLAIM, SLICE = "ResourceClaim", "ResourceSlice"


@pytest.mark.parametrize(
    ("api_version", "kind", "problem", "field", "words"),
    [
        ("resource.k8s.io/v1", CLAIM, ErrorType.UNKNOWN_FIELD, "spec.devices.requests[0].count", "under exactly"),
        ("resource.k8s.io/v1beta1", CLAIM, ErrorType.UNKNOWN_FIELD, "spec.devices.requests[0].exactly", "no exactly"),
        ("resource.k8s.io/v1beta1", SLICE, ErrorType.UNKNOWN_FIELD, "spec.devices[0].capacity", "under basic"),
        ("resource.k8s.io/v1", SLICE, ErrorType.UNKNOWN_FIELD, "spec.devices[0].basic", "no basic"),
        ("resource.k8s.io/v1", CLAIM, ErrorType.UNKNOWN_FIELD, "spec.resourceClassName", "v1alpha2"),
        ("resource.k8s.io/v1", CLAIM, ErrorType.UNKNOWN_FIELD, "spec.devices.request", "did you mean requests?"),
        (
            "resource.k8s.io/v1",
            SLICE,
            ErrorType.UNKNOWN_FIELD,
            "spec.devices[0].capacity[m].val",
            "did you mean value?",
        ),
        ("v1", "Pod", ErrorType.UNKNOWN_FIELD, "spec.resourceClaims[0].source", "one level up"),
        ("v1", "Pod", ErrorType.NOT_FOUND, "spec.containers[0].resources.claims[0]", "add a claim of this name"),
        ("v1", "Pod", ErrorType.INVALID, "spec.resourceClaims[0]", "either resourceClaimName or"),
        ("resource.k8s.io/v1", CLAIM, ErrorType.INVALID, "spec.devices.constraints[0].matchAttribute", "its domain"),
    ],
)
def test_hints(api_version: str, kind: str, problem: ErrorType, field: str, words: str) -> None:
    entry = find(api_version, kind)
    assert entry is not None
    assert words in hint_for(FieldError(problem, field), entry)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("found no matching overload for '_>=_' applied to '(kubernetes.Quantity, int)'", "compareTo(quantity("),
        ("found no matching overload for '_==_' applied to '(string, kubernetes.Quantity)'", "compareTo(quantity("),
        ("Syntax error: token recognition error at: '='", "use =="),
        ("Syntax error: token recognition error at: '&'", "use &&"),
        ("undeclared reference to 'attributes' (in container '')", "device.attributes"),
        ("found no matching overload for '_>=_' applied to '(string, int)'", ""),
    ],
)
def test_hints_at_selectors(said: str, words: str) -> None:
    hint = hint_for(FieldError(ErrorType.INVALID, "spec.selectors[0].cel.expression", said), find("v1", "Pod"))
    assert words in hint
    assert bool(hint) == bool(words)


def test_no_hint_where_there_is_nothing_to_say() -> None:
    entry = find("resource.k8s.io/v1", CLAIM)
    assert entry is not None
    assert hint_for(FieldError(ErrorType.UNKNOWN_FIELD, "spec.zzz"), entry) == ""
    assert hint_for(FieldError(ErrorType.UNKNOWN_FIELD, ""), entry) == ""
    assert hint_for(FieldError(ErrorType.REQUIRED, "metadata.name"), entry) == ""
