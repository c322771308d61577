from __future__ import annotations

from collections.abc import Callable

import pytest

from dray.answers.linting.rules import references
from dray.answers.manifests.reading import read

SET = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim, namespace: a}
spec: {devices: {requests: [{name: one, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: template}
spec: {spec: {devices: {requests: [{name: two, deviceClassName: gpu}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: a}
spec:
  resourceClaims:
  - {name: c, resourceClaimName: claim}
  - {name: t, resourceClaimTemplateName: template}
  containers:
  - resources: {claims: [{name: c, request: one}, {name: t, request: two}]}
"""


@pytest.fixture
def found(write: Callable[..., str]) -> Callable[[str], list[tuple[int, str, str]]]:
    def apply(content: str) -> list[tuple[int, str, str]]:
        manifests = read([write(content)]).manifests
        given = references.Given(manifests)
        findings = [each for m in manifests for rule in references.RULES for each in rule(m, given)]
        findings += references.duplicate_objects(manifests)
        return [(each.line, each.rule, each.message) for each in findings]

    return apply


@pytest.mark.parametrize(
    ("old", "new", "line", "rule", "message"),
    [
        (
            "metadata: {name: gpu}",
            "metadata: {name: x}",
            8,
            "missing-class",
            "DeviceClass 'gpu' is not in the given files",
        ),
        ("{name: two, deviceClassName: gpu}", "{firstAvailable: [{deviceClassName: x}]}", 13, "missing-class", "'x'"),
        (
            "resourceClaimName: claim",
            "resourceClaimName: x",
            20,
            "missing-claim",
            "ResourceClaim 'x' is not in the given",
        ),
        ("{name: claim, namespace: a}", "{name: claim, namespace: b}", 20, "missing-claim", "in namespace 'a'"),
        ("TemplateName: template", "TemplateName: x", 21, "missing-template", "ResourceClaimTemplate 'x'"),
        ("{name: c, request: one}", "{name: c, request: two}", 23, "unknown-request", "'c' has no request 'two'"),
        ("{name: t, request: two}", "{name: t, request: one}", 23, "unknown-request", "'t' has no request 'one'"),
    ],
)
def test_each_rule(
    found: Callable[[str], list[tuple[int, str, str]]], old: str, new: str, line: int, rule: str, message: str
) -> None:
    assert found(SET) == []
    [first, *_] = found(SET.replace(old, new))
    assert first[:2] == (line, rule)
    assert message in first[2]


def test_a_namespace_that_is_not_written_matches_any(found: Callable[[str], list[tuple[int, str, str]]]) -> None:
    assert found(SET.replace("{name: pod, namespace: a}", "{name: pod}")) == []
    assert found(SET.replace("{name: claim, namespace: a}", "{name: claim}")) == []


def test_duplicate_objects(found: Callable[[str], list[tuple[int, str, str]]]) -> None:
    again = SET + "---\napiVersion: resource.k8s.io/v1beta1\nkind: DeviceClass\nmetadata:\n  name: gpu\n"
    assert found(again) == [(28, "duplicate-object", "DeviceClass gpu is already defined in m.yaml:1")]
    elsewhere = SET + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod, namespace: b}\n"
    assert found(elsewhere) == []
