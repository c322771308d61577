from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml
from click.testing import Result

CLAIM = """\
# a comment
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests:
    - {name: gpu, deviceClassName: gpu.example.com, count: 2}
"""
V1_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}


def test_to_v1_and_back(run: Callable[..., Result], write: Callable[..., str]) -> None:
    forward = run("convert", write(CLAIM))
    assert (forward.exit_code, forward.stderr) == (0, "")
    document = yaml.safe_load(forward.stdout)
    assert document["apiVersion"] == "resource.k8s.io/v1"
    assert document["spec"]["devices"]["requests"] == [V1_REQUEST]
    back = run("convert", "--to", "v1beta1", "-", stdin=forward.stdout)
    assert yaml.safe_load(back.stdout) == yaml.safe_load(CLAIM)


def test_json(run: Callable[..., Result], write: Callable[..., str]) -> None:
    one = json.loads(run("convert", "-o", "json", write(CLAIM)).stdout)
    assert one["kind"] == "ResourceClaim"
    two = json.loads(run("convert", "-o", "json", write(CLAIM), write(CLAIM, "b.yaml")).stdout)
    assert (two["kind"], len(two["items"])) == ("List", 2)
    assert run("convert", "-o", "json", write("# nothing\n")).stdout == ""


def test_other_kinds_pass_through(run: Callable[..., Result], write: Callable[..., str]) -> None:
    service = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "on"}, "spec": {"ports": [{"port": 80}]}}
    assert yaml.safe_load(run("convert", write(json.dumps(service), "s.json")).stdout) == service
    request = "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourcePoolStatusRequest\nspec:\n  driver: d\n"
    assert run("convert", write(request)).stdout == request


def test_one_failure_prints_nothing(run: Callable[..., Result], write: Callable[..., str]) -> None:
    taint = "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: t}\n"
    result = run("convert", "--to", "v1beta1", write(CLAIM), write(taint, "t.yaml"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("t.yaml:1:1: error: DeviceTaintRule t: DeviceTaintRule has no version 'v1beta1'")


@pytest.mark.parametrize("kind", ["Nonsense", "[a]"])
def test_an_unknown_kind_of_the_group_is_an_error(
    run: Callable[..., Result], write: Callable[..., str], kind: str
) -> None:
    result = run("convert", write(f"apiVersion: resource.k8s.io/v1\nkind: {kind}\n"))
    assert (result.exit_code, result.stdout) == (1, "")


def test_the_malformed_v1alpha2_of_the_wild(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run(
        "convert",
        write("""\
            apiVersion: resource.k8s.io/v1alpha2
            kind: ResourceClass
            metadata:
              name: gpu.nvidia.com
            structuredParameters:
              generatedFrom:
                nodeName:
                driverName: gpu.nvidia.com
            ---
            apiVersion: resource.k8s.io/v1alpha2
            kind: ResourceClaim
            metadata:
              name: training-gpus
            spec:
              resourceClassName: gpu.nvidia.com
              parameters:
                apiVersion: gpu.resource.nvidia.com/v1alpha1
                kind: GpuClaimParameters
                count: 4
                sharing: {}
                selector: {}
              constraints:
                - nodeSelector:
                    node.kubernetes.io/instance-type: p4d.24xlarge
            """),
    )
    assert result.exit_code == 0
    device_class, claim = yaml.safe_load_all(result.stdout)
    assert device_class["spec"] == {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]}
    assert claim["spec"]["devices"] == {
        "requests": [{"name": "device", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4}}]
    }
    places = [line.split(": note: ")[0] for line in result.stderr.splitlines()]
    assert places == ["m.yaml:5:1", "m.yaml:16:3", "m.yaml:23:7"]
    assert 'put {"node.kubernetes.io/instance-type":"p4d.24xlarge"} into spec.nodeSelector of the pod' in result.stderr


def test_pods_of_old_lose_their_source(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run(
        "convert",
        write("""\
            apiVersion: apps/v1
            kind: Deployment
            spec:
              template:
                spec:
                  resourceClaims:
                  - {name: a, source: {resourceClaimTemplateName: t, odd: 1}}
                  - {name: b, resourceClaimName: c}
            """),
    )
    claims = yaml.safe_load(result.stdout)["spec"]["template"]["spec"]["resourceClaims"]
    assert claims == [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimName": "c"}]
    assert result.stderr.startswith("m.yaml:7:58: note: Deployment: spec.template.spec.resourceClaims[0].source.odd")


def test_a_removed_version_can_go_to_any_version(run: Callable[..., Result], write: Callable[..., str]) -> None:
    old = "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nspec: {resourceClassName: c}\n"
    converted = yaml.safe_load(run("convert", "--to", "v1beta1", write(old)).stdout)
    assert converted["spec"]["devices"]["requests"] == [{"name": "device", "deviceClassName": "c"}]
