from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dray.answers.linting.findings import Finding
from dray.answers.linting.rules import single_objects
from dray.answers.manifests.reading import Manifest, read

Rule = Callable[[Manifest], Iterator[Finding]]
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests:
    - name: gpu
      firstAvailable: [{name: large, deviceClassName: g}, {name: small, deviceClassName: g}]
    - name: nic
      exactly: {deviceClassName: n}
"""


@pytest.fixture
def found(write: Callable[..., str]) -> Callable[[Rule, str], list[tuple[int, str]]]:
    def apply(rule: Rule, content: str) -> list[tuple[int, str]]:
        [manifest] = read([write(content)]).manifests
        return [(finding.line, finding.message) for finding in rule(manifest)]

    return apply


Found = Callable[[Rule, str], list[tuple[int, str]]]


def test_old_version(found: Found) -> None:
    [(line, message)] = found(single_objects.old_version, CLAIM.replace("/v1", "/v1beta2"))
    assert line == 1
    assert "deprecated" in message
    assert found(single_objects.old_version, CLAIM) == []


def test_string_comparison_looks_at_classes_requests_and_alternatives(found: Found) -> None:
    bad = """selectors: [{cel: {expression: 'device.attributes["d"].memory > "1Gi"'}}]"""
    device_class = f"apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nspec:\n  {bad}\n"
    assert [line for line, _ in found(single_objects.string_comparison, device_class)] == [4]
    alternative = CLAIM.replace("{name: small, ", f"{{name: small, {bad}, ")
    assert [line for line, _ in found(single_objects.string_comparison, alternative)] == [8]
    exact = CLAIM.replace("{deviceClassName: n}", f"{{deviceClassName: n, {bad}}}")
    assert [line for line, _ in found(single_objects.string_comparison, exact)] == [10]


def test_ignored_constraint(found: Found) -> None:
    both = "    constraints:\n    - matchAttribute: d/a\n      distinctAttribute: d/b\n"
    assert found(single_objects.ignored_constraint, CLAIM + both) == [
        (13, "ignored, because matchAttribute is in the same constraint")
    ]
    assert found(single_objects.ignored_constraint, CLAIM + "    constraints: [{matchAttribute: d/a}]\n") == []


@pytest.mark.parametrize("member", ["constraints", "config"])
def test_unknown_request(found: Found, member: str) -> None:
    names = "[gpu, gpu/small, nic, nic/large, tpu]"
    assert found(single_objects.unknown_request, CLAIM + f"    {member}:\n    - requests: {names}\n") == [
        (12, "no request is named 'nic/large'"),
        (12, "no request is named 'tpu'"),
    ]


def test_unused_claim(found: Found) -> None:
    pod = """\
apiVersion: v1
kind: Pod
spec:
  resourceClaims:
  - name: used-at-start
  - name: used
  - name: unused
  initContainers:
  - resources: {claims: [{name: used-at-start}]}
  containers:
  - resources: {claims: [{name: used, request: a}]}
"""
    [(line, message)] = found(single_objects.unused_claim, pod)
    assert line == 7
    assert "'unused'" in message


def test_configuration_that_the_driver_would_refuse(found: Found) -> None:
    config = """\
    config:
    - opaque:
        driver: gpu.nvidia.com
        parameters:
          apiVersion: resource.nvidia.com/v1beta1
          kind: GpuConfig
          sharing:
            strategy: TimeSlicing
"""
    assert found(single_objects.invalid_config, CLAIM + config) == []
    [(line, message)] = found(single_objects.invalid_config, CLAIM + config.replace("TimeSlicing", "TimeSlicin"))
    assert line == 18
    assert message == (
        "resource.nvidia.com/v1beta1 GpuConfig: Invalid enum value 'TimeSlicin'; there are MPS, TimeSlicing"
    )
    [(line, message)] = found(single_objects.invalid_config, CLAIM + config + "            foo: 1\n")
    assert line == 17
    assert message.endswith("Object contains unknown field `foo`")
    other = config.replace("gpu.nvidia.com", "gpu.example.com").replace("TimeSlicing", "TimeSlicin")
    assert found(single_objects.invalid_config, CLAIM + other) == []
    device_class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec:\n"
    wrong = config.replace("    config", "  config").replace("TimeSlicing", "TimeSlicin")
    assert [line for line, _ in found(single_objects.invalid_config, device_class + wrong)] == [12]


@pytest.mark.parametrize(
    ("of_class", "named", "kind", "is_found"),
    [
        ("mig.nvidia.com", "a", "GpuConfig", True),
        ("mig.nvidia.com", "a", "MigDeviceConfig", False),
        ("gpu.nvidia.com", "a", "MigDeviceConfig", True),
        ("gpu.nvidia.com", "a", "GpuConfig", False),
        ("partitions", "a", "GpuConfig", False),
        # Without requests, the driver ignores the entry where it does not fit.
        ("mig.nvidia.com", "", "GpuConfig", False),
    ],
)
def test_configuration_of_another_kind_of_device(
    found: Found, of_class: str, named: str, kind: str, is_found: bool
) -> None:
    claim = f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: a}}
spec:
  devices:
    requests:
    - name: a
      exactly: {{deviceClassName: {of_class}}}
    config:
    - requests: [{named}]
      opaque:
        driver: gpu.nvidia.com
        parameters: {{apiVersion: resource.nvidia.com/v1beta1, kind: {kind}}}
"""
    findings = found(single_objects.invalid_config, claim)
    expected = f"not a configuration for request 'a', whose devices are of class {of_class}"
    assert findings == ([(13, expected)] if is_found else [])


def test_configuration_of_alternatives_is_judged_by_their_classes(found: Found) -> None:
    claim = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests:
    - name: a
      firstAvailable:
      - {name: whole, deviceClassName: gpu.nvidia.com}
      - {name: part, deviceClassName: mig.nvidia.com}
    config:
    - requests: [NAMED]
      opaque:
        driver: gpu.nvidia.com
        parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig}
"""
    assert found(single_objects.invalid_config, claim.replace("NAMED", "a/whole")) == []
    assert found(single_objects.invalid_config, claim.replace("NAMED", "a")) == []
    assert len(found(single_objects.invalid_config, claim.replace("NAMED", "a/part"))) == 1
