from __future__ import annotations

from collections.abc import Callable

import pytest

from dray.answers.linting.examination import identity_findings, is_foreign
from dray.answers.manifests.reading import Manifest, read


@pytest.fixture
def manifest(write: Callable[..., str]) -> Callable[[str, str], Manifest]:
    def make(api_version: str, kind: str) -> Manifest:
        return read([write(f"apiVersion: {api_version}\nkind: {kind}\n")]).manifests[0]

    return make


@pytest.mark.parametrize(
    ("api_version", "kind", "rule", "line", "words"),
    [
        ("resource.k8s.io/v1alpha2", "ResourceClass", "removed-version", 1, "since Kubernetes 1.31"),
        ("resource.k8s.io/v1alpha1", "ResourceClaim", "removed-version", 1, "since Kubernetes 1.27"),
        ("resource.k8s.io/v1alpha3", "ResourceClaim", "removed-version", 1, "was removed"),
        ("resource.k8s.io/v1", "ResourceClaims", "unknown-kind", 2, "did you mean ResourceClaim?"),
        ("resource.k8s.io/v2", "ResourceClaim", "unknown-kind", 1, "has the versions v1, v1beta2, v1beta1"),
        ("v1", "ResourceClaim", "unknown-kind", 1, "write resource.k8s.io/v1"),
        ("resources.k8s.io/v1", "DeviceClass", "unknown-kind", 1, "write resource.k8s.io/v1"),
        ("", "Pod", "unknown-kind", 1, "Required value"),
        ("v1", "[a]", "unknown-kind", 2, "Required value"),
    ],
)
def test_refuses(
    manifest: Callable[[str, str], Manifest], api_version: str, kind: str, rule: str, line: int, words: str
) -> None:
    made = manifest(api_version, kind)
    [finding] = identity_findings(made)
    assert (finding.severity, finding.rule, finding.line) == ("error", rule, line)
    assert words in f"{finding.message} {finding.hint}"
    assert not is_foreign(made)


@pytest.mark.parametrize(
    ("api_version", "kind", "foreign"),
    [
        ("resource.k8s.io/v1", "ResourceClaim", False),
        ("v1", "Pod", False),
        ("internal.apiserver.k8s.io/v1alpha1", "StorageVersion", True),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", True),
        ("example.com/v1", "ResourceClaim", True),
    ],
)
def test_leaves_alone(manifest: Callable[[str, str], Manifest], api_version: str, kind: str, foreign: bool) -> None:
    made = manifest(api_version, kind)
    assert list(identity_findings(made)) == []
    assert is_foreign(made) is foreign
