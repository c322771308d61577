from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

OLD = Path(__file__).parent / "old_manifests"
CLAIM = """\
# a comment
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: a}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.example.com, count: 2}]}}
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
    result = run("convert", write((OLD / "wild.yaml").read_text()))
    assert result.exit_code == 0
    device_class, claim = yaml.safe_load_all(result.stdout)
    (selector,) = device_class["spec"]["selectors"]
    assert selector["cel"]["expression"].startswith("device.driver == 'gpu.nvidia.com' && ")
    assert claim["spec"]["devices"] == {
        "requests": [{"name": "device", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4}}]
    }
    places = [line.split(": note: ")[0] for line in result.stderr.splitlines()]
    assert places == ["m.yaml:5:1", "m.yaml:4:3", "m.yaml:16:3", "m.yaml:23:7"]
    assert 'put {"node.kubernetes.io/instance-type":"p4d.24xlarge"} into spec.nodeSelector of the pod' in result.stderr


def test_node_selectors_of_claims_go_into_the_pods_that_use_them(
    run: Callable[..., Result], write: Callable[..., str]
) -> None:
    result = run("convert", str(OLD / "claim.yaml"), str(OLD / "users.yaml"))
    _, pod, deployment, other = yaml.safe_load_all(result.stdout)
    assert pod["spec"]["nodeSelector"] == {"zone": "b", "size": "large"}
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "a", "size": "large"}
    assert "nodeSelector" not in other["spec"]
    assert "nodeSelector: moved: a claim does not select nodes" in result.stderr
    assert 'spec.nodeSelector: {"zone":"b"} is kept: ResourceClaim gpus says {"zone":"a"}' in result.stderr


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


SLICE = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d.example.com
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  nodeName: NODE
  devices:
  - name: DEVICE
    basic: {}
"""


@pytest.mark.parametrize(
    ("old", "new", "place", "complaint"),
    [
        ("NODE", "n", "7:3", "spec.nodeName: expected a string, found a boolean (quote it: YAML reads"),
        ("NODE", "7", "7:3", "spec.nodeName: expected a string, found a number (7) (quote it)"),
        ("generation: 1", 'generation: "x"', "6:19", "spec.pool.generation: expected a whole number"),
        ("DEVICE", "5", "9:5", "spec.devices[0].name: expected a string, found a number (5)"),
        ("basic: {}", "basic: [1]", "10:5", "spec.devices[0].basic: expected an object, found a list"),
        ("{name: s}", "s", "3:1", "metadata: expected an object, found a string (s)"),
    ],
)
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
@pytest.mark.parametrize("to", ["v1", "v1beta1"])
def test_what_has_the_wrong_type_is_an_error_with_its_place(
    run: Callable[..., Result],
    write: Callable[..., str],
    old: str,
    new: str,
    place: str,
    complaint: str,
    version: str,
    to: str,
) -> None:
    result = run("convert", "--to", to, write(SLICE.replace(old, new).replace("v1beta1", version)))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"m.yaml:{place}: error: ResourceSlice")
    assert complaint in result.stderr


def test_all_wrong_types_of_an_object_are_named(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run("convert", write(SLICE.replace("NODE", "n").replace("DEVICE", "5")))
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == ["m.yaml:7:3", "m.yaml:9:5"]


def test_unknown_fields_are_kept_and_named(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run("convert", write(CLAIM.replace("count: 2", "count: 2, colour: red")))
    assert result.exit_code == 0
    request = yaml.safe_load(result.stdout)["spec"]["devices"]["requests"][0]
    assert request == {**V1_REQUEST, "colour": "red"}
    assert 'm.yaml:5:85: note: ResourceClaim a: spec.devices.requests[0].colour: unknown field "colour"' in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("text", "to"),
    [
        (CLAIM.replace("count: 2", "count: 2, exactly: {deviceClassName: other}"), "v1"),
        (CLAIM.replace("v1beta1", "v1").replace("count: 2", "exactly: {deviceClassName: other}"), "v1beta1"),
        (SLICE.replace("basic: {}", "basic: {attributes: {a: {int: 1}}}\n    attributes: {b: {int: 2}}"), "v1"),
        (CLAIM.replace("v1beta1", "v1alpha2").replace("count: 2", "exactly: {deviceClassName: other}"), "v1"),
    ],
)
def test_two_values_for_one_place_are_an_error(
    run: Callable[..., Result], write: Callable[..., str], text: str, to: str
) -> None:
    result = run("convert", "--to", to, write(text))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "twice" in result.stderr


ALPHA2 = """\
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
metadata: {name: gpu}
driverName: gpu.example.com
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: a}
spec:
  resourceClassName: gpu
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "driverName: gpu.example.com",
            "driverName: 7",
            "4:1: error: ResourceClass gpu: driverName: expected",
        ),
        ("  resourceClassName: gpu", "  resourceClassName: n", "10:3: error: ResourceClaim a: spec.resourceClassName:"),
        ("  resourceClassName: gpu", "  resourceClassName: gpu\n  parameters: 5", "11:3: error: ResourceClaim a"),
        ("  resourceClassName: gpu", "  resourceClassName: gpu\n  parametersRef: x", "11:3: error: ResourceClaim a"),
        ("  resourceClassName: gpu", "  resourceClassName: gpu\n  allocationMode: 7", "11:3: error: ResourceClaim a"),
        ("  resourceClassName: gpu", "  resourceClassName: gpu\n  constraints: 7", "11:3: error: ResourceClaim a"),
        ("{name: a}", "{name: 5}", "8:12: error: ResourceClaim: metadata.name: expected a string"),
        ("spec:\n  resourceClassName: gpu", "spec: 5", "9:1: error: ResourceClaim a: spec: expected an object"),
    ],
)
def test_wrong_types_in_v1alpha2(
    run: Callable[..., Result], write: Callable[..., str], old: str, new: str, complaint: str
) -> None:
    result = run("convert", write(ALPHA2.replace(old, new)))
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"m.yaml:{complaint}" in result.stderr


def test_nothing_of_v1alpha2_goes_without_a_note(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run("convert", write((OLD / "noted.yaml").read_text()))
    claim = next(yaml.safe_load_all(result.stdout))
    parameters = claim["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    assert parameters["extra"] == {"sharing": "none"}
    assert parameters["spec"] == {"level": 3}
    assert 'spec.allocationMode: dropped: there is no allocation mode "Sometime"' in result.stderr


def test_pods_without_old_claims_are_printed_as_they_are(run: Callable[..., Result], write: Callable[..., str]) -> None:
    for spec in ({"containers": []}, {"resourceClaims": "odd"}):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        assert yaml.safe_load(run("convert", write(json.dumps(pod), "p.json")).stdout) == pod


def test_a_pods_claim_named_on_both_levels_is_noted(run: Callable[..., Result], write: Callable[..., str]) -> None:
    claims = [{"name": "a", "resourceClaimName": "b", "source": {"resourceClaimName": "c"}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"resourceClaims": claims}}
    result = run("convert", write(json.dumps(pod), "p.json"))
    assert 'spec.resourceClaims[0].source.resourceClaimName: dropped: the entry names "b" already' in result.stderr


def test_unknown_fields_of_v1alpha3_are_kept_and_named(run: Callable[..., Result], write: Callable[..., str]) -> None:
    text = SLICE.replace("v1beta1", "v1alpha3").replace("NODE", "a").replace("basic: {}", "basic: {colour: red}")
    result = run("convert", write(text.replace("DEVICE", "gpu-0")))
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["spec"]["devices"] == [{"name": "gpu-0", "colour": "red"}]
    assert 'note: ResourceSlice s: spec.devices[0].basic.colour: unknown field "colour", kept' in result.stderr


def test_a_class_that_its_driver_installs_stays_as_the_driver_has_it(
    run: Callable[..., Result], write: Callable[..., str]
) -> None:
    old = """\
    apiVersion: resource.k8s.io/v1alpha2
    kind: ResourceClass
    metadata: {name: gpu.nvidia.com}
    driverName: gpu.nvidia.com
    """
    converted = run("convert", write(old))
    assert "the driver installs a class of this name" in converted.stderr
    (selector,) = yaml.safe_load(converted.stdout)["spec"]["selectors"]
    assert "type == 'gpu'" in selector["cel"]["expression"]
