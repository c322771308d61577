"""Device classes: the extended resource they serve."""

import pytest

from tests.api.objects import CLASS, changed, create


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("example.com/gpu", []),
        ("gpu", ["domain-prefixed"]),
        ("kubernetes.io/gpu", ["domain"]),
        ("requests.example.com/gpu", ["prefix"]),
        ("requests.kubernetes.io/gpu", ["domain", "prefix"]),
        ("example.com/g pu", ["qualified name"]),
        ("requests.example.com/g pu", ["prefix", "qualified name"]),
        ("", ["domain-prefixed", "qualified name"]),
    ],
)
def test_everything_that_is_wrong_with_an_extended_resource_is_said(name, problems):
    verdict = create(changed(CLASS, {"spec.extendedResourceName": name}))
    found = list(getattr(verdict, "causes", ()))
    assert {cause.field for cause in found} <= {"spec.extendedResourceName"}
    for cause, problem in zip(found, problems, strict=True):
        assert problem in cause.detail
