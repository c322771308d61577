from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

SET = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'SELECTOR'}}]}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: node
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: H100}}}
  - {name: gpu-1}
"""
MODEL = 'device.attributes["gpu.example.com"].model == "H100"'


@pytest.fixture
def findings(run: Callable[..., Result], write: Callable[..., str]) -> Callable[[str], list[str]]:
    return lambda text: run("lint", write(text)).stdout.splitlines()[:-1]


def test_a_selector_that_fails_on_a_given_device(findings: Callable[[str], list[str]]) -> None:
    [found] = findings(SET.replace("SELECTOR", MODEL))
    assert "warning[unguarded-attribute]: ResourceClaim c: spec.devices.requests[0].exactly.selectors[0]" in found
    assert "fails on the device p/gpu-1: no such key: model" in found


@pytest.mark.parametrize(
    "selector",
    [
        'device.attributes["gpu.example.com"].?model.orValue("") == "H100"',
        f'has(device.attributes["gpu.example.com"].model) && {MODEL}',
        "true",
    ],
)
def test_guarded_ones_are_fine(findings: Callable[[str], list[str]], selector: str) -> None:
    assert findings(SET.replace("SELECTOR", selector)) == []


def test_devices_that_the_class_does_not_select_do_not_matter(findings: Callable[[str], list[str]]) -> None:
    assert findings(SET.replace("SELECTOR", MODEL).replace("driver: gpu.", "driver: nic.")) == []
    [found] = findings(SET.replace("SELECTOR", "true").replace('device.driver == "gpu.example.com"', MODEL))
    assert "DeviceClass gpu: spec.selectors[0].cel.expression" in found


def test_without_slices_there_is_nothing_to_try(findings: Callable[[str], list[str]]) -> None:
    assert findings(SET.replace("SELECTOR", MODEL).rpartition("---\n")[0]) == []
