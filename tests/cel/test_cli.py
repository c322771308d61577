import json

import pytest
from click.testing import CliRunner

from dray.cli import main
from dray.cli.cel import cel
from tests.server.process import listening

SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: H100}, fw: {version: 1.2.3}}
    capacity: {memory: {value: 80Gi}}
  - name: gpu-1
"""
A = 'device.attributes["gpu.example.com"]'


@pytest.fixture
def dray_cel(tmp_path):
    path = tmp_path / "slice.yaml"
    path.write_text(SLICE)

    def run(expression, *options, device=True):
        arguments = [expression, *(["--device", str(path)] if device else []), *options]
        return CliRunner().invoke(cel, arguments)

    return run


def test_value_and_cost(dray_cel):
    result = dray_cel(f'{A}.?model.orValue("") == "H100"')
    assert result.exit_code == 0
    assert "gpu-0: true (cost 5)" in result.output
    assert "gpu-1: false (cost 3)" in result.output


def test_error_under_its_place(dray_cel):
    result = dray_cel(f"{A}.model.size() / 0 == 1", "--name", "gpu-0")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert "division by zero" in lines[-3]
    assert lines[-2][lines[-1].index("^")] == "/"


def test_compile_error_under_its_place(dray_cel):
    result = dray_cel("device.nam == 1", device=False)
    assert result.exit_code == 1
    assert "undefined field 'nam'\n | device.nam == 1\n | ......^" in result.output


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        (f"{A}.fw", "1.2.3"),
        ("device.capacity", '{"gpu.example.com": {"memory": quantity("80Gi")}}'),
        ('["a\\"b", dyn(null), dyn(true)]', '["a\\"b", null, true]'),
        ("duration('90s')", "duration(90000000000ns)"),
        (f"{A}.?nope", "optional.none()"),
        ("type(1)", "int"),
        ("1.5", "1.5"),
    ],
)
def test_values_as_cel(dray_cel, expression, shown):
    assert f"gpu-0: {shown} (cost" in dray_cel(expression, "--name", "gpu-0").output


def test_says_what_an_expression_may_be(dray_cel):
    assert "may be a derived attribute" in dray_cel("'a'", device=False).output
    assert "neither a selector" in dray_cel("1.5", device=False).output
    assert "an API server refuses it" in dray_cel("['a'].join() == ''", device=False).output


def test_files_without_devices(dray_cel, tmp_path):
    assert dray_cel("true", "--name", "nope").exit_code == 2
    assert CliRunner().invoke(cel, ["true", "--device", str(tmp_path / "missing.yaml")]).exit_code == 2


def test_devices_are_named_with_their_pools(dray_cel):
    result = dray_cel("true")
    assert [line.split(": ")[0] for line in result.output.splitlines()[2:]] == ["p/gpu-0", "p/gpu-1"]
    for name in ("gpu-1", "p/gpu-1", "gpu.example.com/p/gpu-1"):
        assert dray_cel("true", "--name", name).output.splitlines()[2:] == ["p/gpu-1: true (cost 0)"]
    assert dray_cel("true", "--name", "q/gpu-1").exit_code == 2


def test_data(dray_cel):
    result = dray_cel(f"{A}.model", "-o", "json")
    assert result.exit_code == 1
    row = json.loads(result.output)
    assert (row["compiles"], row["type"], row["costLimit"]) == (True, "dyn", 1_000_000)
    first, second = row["devices"]
    assert first == {"driver": "gpu.example.com", "pool": "p", "device": "gpu-0", "value": '"H100"', "cost": 4}
    assert "no such key: model" in second["error"]
    assert "devices" not in json.loads(dray_cel("true", "-o", "json", device=False).output)
    wrong = dray_cel("device.nam == 1", "-o", "json", device=False)
    assert wrong.exit_code == 1
    assert json.loads(wrong.output) == {
        "compiles": False,
        "error": "undefined field 'nam'",
        "line": 1,
        "column": 7,
    }


def test_devices_of_a_running_cluster(tmp_path):
    kubeconfig, slices = str(tmp_path / "kubeconfig"), SLICE.replace("nodeName: n", "nodeName: node")
    with listening(kubeconfig=tmp_path / "kubeconfig"):
        missing = CliRunner().invoke(main, ["cel", "true", "--live", "--kubeconfig", kubeconfig])
        assert missing.exit_code == 2
        assert "the cluster has no device" in missing.output
        applied = CliRunner().invoke(main, ["apply", "-f", "-", "--kubeconfig", kubeconfig], input=slices)
        assert applied.exit_code == 0, applied.output
        result = CliRunner().invoke(main, ["cel", "device.driver", "--live", "--kubeconfig", kubeconfig])
        assert result.output.splitlines()[-2:] == [
            'p/gpu-0: "gpu.example.com" (cost 2)',
            'p/gpu-1: "gpu.example.com" (cost 2)',
        ]
    assert CliRunner().invoke(main, ["cel", "true", "--live", "--device", "x"]).exit_code == 2
