"""Drives `dray lint` on whole files: what it reports, where, and with which exit status."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.answers.linting.examination import examine
from dray.answers.linting.findings import RULES
from dray.answers.manifests.reading import Manifest, read
from dray.api.conversion import ConversionError
from dray.cli.convert import convert_manifest
from dray.yaml.text import Position

EXAMPLES = Path(__file__).parents[2] / "examples"
SEED_001 = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata:
  name: gpu-claim-template
spec:
  spec:
    devices:
      requests:
      - name: gpu-req
        deviceClassName: gpu.example.com
        selectors:
        - cel:
            expression: |
              device.attributes["gpu-driver.example.com"].memory >= "16Gi"
"""


def test_good_examples_are_clean(run: Callable[..., Result]) -> None:
    result = run("lint", str(EXAMPLES / "manifests"))
    assert result.exit_code == 0
    assert result.output == "nothing found in 29 objects\n"


def test_converted_legacy_examples_are_clean(run: Callable[..., Result]) -> None:
    converted = run("convert", str(EXAMPLES / "legacy"))
    assert converted.exit_code == 0
    result = run("lint", "-", stdin=converted.stdout)
    assert (result.exit_code, result.output) == (0, "nothing found in 6 objects\n")


def test_every_mistake_is_found(run: Callable[..., Result]) -> None:
    result = run("lint", "--output", "json", str(EXAMPLES / "mistakes"))
    assert result.exit_code == 1
    assert [(row["line"], row["severity"], row["rule"]) for row in json.loads(result.stdout)] == [
        (2, "warning", "old-version"),
        (20, "error", "rejected"),
        (33, "error", "rejected"),
        (36, "warning", "string-comparison"),
        (38, "error", "rejected"),
        (40, "warning", "ignored-constraint"),
        (49, "warning", "missing-template"),
        (50, "warning", "unused-claim"),
        (57, "error", "rejected"),
    ]


def test_the_quantity_compared_as_a_string(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run("lint", write(SEED_001))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1] == (
        "m.yaml:13:13: warning[string-comparison]: ResourceClaimTemplate gpu-claim-template: "
        "spec.spec.devices.requests[0].selectors[0].cel.expression: "
        'device.attributes["gpu-driver.example.com"].memory >= "16Gi" compares a quantity as a string, '
        'and as strings "9" comes after "16" '
        '(write device.capacity["gpu-driver.example.com"].memory.compareTo(quantity("16Gi")) >= 0)'
    )
    assert result.stdout.splitlines()[3:] == ["3 warnings in 1 object"]


def test_an_error_in_an_old_version_points_at_the_field_in_the_file(
    run: Callable[..., Result], write: Callable[..., str]
) -> None:
    path = write(SEED_001.replace("gpu.example.com\n", "gpu.example.com\n        count: -1\n"))
    rows = json.loads(run("lint", "-o", "json", path).stdout)
    assert ("rejected", 11) in {(row["rule"], row["line"]) for row in rows}


def test_feature_gates(run: Callable[..., Result], write: Callable[..., str]) -> None:
    path = write("""\
        apiVersion: resource.k8s.io/v1
        kind: ResourceSlice
        metadata: {name: a}
        spec:
          driver: gpu.example.com
          allNodes: true
          pool: {name: a, generation: 1, resourceSliceCount: 1}
          devices:
          - name: gpu-0
            attributes:
              profiles: {strings: [a, b]}
        """)
    assert run("lint", path).exit_code == 1
    assert run("lint", "--feature-gates", "DRAListTypeAttributes=true", path).exit_code == 0
    wrong = run("lint", "--feature-gates", "NoSuchGate=true", path)
    assert wrong.exit_code == 2
    assert "NoSuchGate" in wrong.stderr


def test_ignored_rules_do_not_count(run: Callable[..., Result], write: Callable[..., str]) -> None:
    arguments = ("--ignore", "missing-class", "--ignore", "old-version", "--ignore", "string-comparison")
    assert run("lint", *arguments, write(SEED_001)).exit_code == 0


def test_a_rule_that_does_not_exist_cannot_be_ignored(run: Callable[..., Result]) -> None:
    result = run("lint", "--ignore", "mising-class", "-")
    assert result.exit_code == 2
    assert "missing-class" in result.stderr


def test_the_documentation_is_true(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    documented = re.findall(r"^\| `([a-z-]+)` \| (?:error|warning) \|", Path("docs/lint.md").read_text(), re.MULTILINE)
    assert documented == [*RULES, "unreadable"]
    lint, convert, allocate, cel = (
        Path(f"docs/{name}.md").read_text() for name in ("lint", "convert", "allocate", "cel")
    )
    assert run("lint", "examples/manifests").stdout in lint
    assert run("lint", "examples/mistakes").stdout in lint
    assert run("convert", "examples/legacy/v1alpha2.yaml").stderr in convert
    assert run("allocate", "examples/cluster").stdout in allocate
    assert run("explain", "simulation", "examples/cluster").stdout in allocate
    selector = 'device.attributes["gpu.example.com"].?model.orValue("") == "H100"'
    assert run("cel", selector, "--device", "examples/manifests/partitions.yaml").stdout in cel


def test_unreadable_files_do_not_hide_findings(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run("lint", write(SEED_001), write("a: 1\na: 2\n", "bad.yaml"))
    assert result.exit_code == 2
    assert result.stderr == "bad.yaml:2:1: duplicate key 'a', first on line 1: remove one\n"
    assert "string-comparison" in result.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: {b: [1", "m.yaml:1:10: not YAML: "),
        (b"\x7fELF\x01\x00\xff", "m.yaml:1:7: byte 0xff at offset 6 is not UTF-8"),
        (b"\x00" * 100, "m.yaml:1:1: control character U+0000"),
        (b"[" * 100_000, "m.yaml:1:101: nested more than 100 levels deep"),
        (b"a: 1\na: 2\n", "m.yaml:2:1: duplicate key 'a'"),
        (
            b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
            b"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]",
            "m.yaml:6:",
        ),
    ],
)
@pytest.mark.parametrize("command", ["lint", "convert"])
def test_bad_input_gets_one_line_and_status_2(
    run: Callable[..., Result], write: Callable[..., str], command: str, content: bytes, message: str
) -> None:
    result = run(command, write(content))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_pod_templates_are_checked_as_pods(run: Callable[..., Result], write: Callable[..., str]) -> None:
    path = write("""\
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: nightly}
        spec:
          schedule: "0 3 * * *"
          jobTemplate:
            spec:
              template:
                spec:
                  resourceClaims:
                  - name: gpu
                    resourceClaimName: a
                    resourceClaimTemplateName: b
                  restartPolicy: Never
                  containers:
                  - name: main
                    image: example
                    resources:
                      claims: [{name: other}]
        """)
    rows = json.loads(run("lint", "-o", "json", path).stdout)
    template = "spec.jobTemplate.spec.template.spec"
    assert [(row["line"], row["rule"], row["field"]) for row in rows] == [
        (11, "rejected", f"{template}.resourceClaims[0]"),
        (11, "unused-claim", f"{template}.resourceClaims[0]"),
        (12, "missing-claim", f"{template}.resourceClaims[0].resourceClaimName"),
        (19, "rejected", f"{template}.containers[0].resources.claims[0]"),
    ]


DOCUMENTS = [manifest.document for manifest in read([str(EXAMPLES)]).manifests]
JUNK: list[Any] = [None, True, -1, 2**70, 1.5, "", "x", "16Gi", [], {}, [None], [[]], ["a"], [{}], {"name": 1}]


@settings(deadline=None)
@given(st.data())
def test_no_shape_of_a_document_breaks_it(data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        parent: Any = document
        while True:
            keys = list(parent) if isinstance(parent, dict) else range(len(parent))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(parent[key], dict | list) or not parent[key] or data.draw(st.booleans()):
                parent[key] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
                break
            parent = parent[key]
    manifest = Manifest("m.yaml", document, Position(1, 1))
    for finding in examine([manifest]):
        assert (finding.line, finding.column) == (1, 1)
    for version in ("v1", "v1beta1"):
        with contextlib.suppress(ConversionError):
            convert_manifest(manifest, version, [document])


def test_admin_access_needs_a_label_of_the_namespace_that_is_given(
    run: Callable[..., Result], write: Callable[..., str]
) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: mon, labels: {LABEL}}\n---\n"
    requests = "{devices: {requests: [{name: r, exactly: {deviceClassName: c, adminAccess: true}}]}}"
    claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a, namespace: mon}\n"
    claim += f"spec: {requests}"
    template = claim.replace("Claim\n", "ClaimTemplate\n").replace("spec: ", "spec: {spec: ") + "}"
    unlabelled = namespace.replace("LABEL", "a: b")
    labelled = namespace.replace("LABEL", 'resource.kubernetes.io/admin-access: "true"')
    for document in (claim, template):
        result = run("lint", "--ignore", "missing-class", write(unlabelled + document))
        assert result.exit_code == 1
        assert "adminAccess: Forbidden: admin access to devices requires the" in result.stdout
        for fine in (labelled + document, document, unlabelled.replace("mon", "other") + document):
            assert run("lint", "--ignore", "missing-class", write(fine)).exit_code == 0, fine


def test_what_cannot_be_decoded_does_not_hide_the_rest(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run(
        "lint",
        write("""\
            apiVersion: resource.k8s.io/v1
            kind: ResourceSlice
            metadata: {name: BAD}
            spec:
              driver: gpu.example.com
              nodeName: node
              pool: {name: p, generation: 1, resourceSliceCount: 1}
              devices:
              - name: gpu-0
                capacity: {memory: {value: 80Gb}, cores: {value: 1 0}}
              - name: GPU
                colour: red
              - name: gpu-2
                attributes: {model: {}}
            """),
    )
    lines = [line.split(":")[1] for line in result.stdout.splitlines()[:-1]]
    # First what keeps a server from reading the object.
    assert lines == ["10", "10", "12", "3", "11", "14"]


def test_a_pod_template_is_an_object_that_is_checked(run: Callable[..., Result], write: Callable[..., str]) -> None:
    deployment = """\
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: d}
        spec:
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: LABEL}}
            spec: {containers: [{name: c, image: i}]}
        """
    assert run("lint", write(deployment.replace("LABEL", "web"))).stdout == "nothing found in 1 object\n"
    mismatch = run("lint", write(deployment.replace("LABEL", "other")))
    assert mismatch.exit_code == 1
    (line,) = [each for each in mismatch.stdout.splitlines() if "error[" in each]
    assert "error[rejected]: Deployment d: spec.template.metadata.labels: Invalid value" in line
    assert line.endswith("`selector` does not match template `labels`")
    other = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n"
    assert run("lint", write(other)).stdout == "nothing found in 0 objects, 1 of other kinds not checked\n"


@pytest.mark.parametrize(
    "text",
    [
        "metadata:\n  name: {{ .Values.name }}\n",
        "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n",
        '{{ include "x" . }}\n',
    ],
)
def test_helm_templates_are_named(run: Callable[..., Result], write: Callable[..., str], text: str) -> None:
    result = run("lint", write("apiVersion: v1\n" + text))
    assert result.exit_code == 2
    assert "this is a Helm template: lint what `helm template` makes of it" in result.stderr


def test_booleans_that_should_be_text_get_a_hint(run: Callable[..., Result], write: Callable[..., str]) -> None:
    result = run("lint", write("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: on}\n"))
    assert "expected a string, found a boolean (quote it: YAML reads y, n, yes, no, on and off as" in result.stdout


def test_the_first_line_is_the_most_important_finding(run: Callable[..., Result], write: Callable[..., str]) -> None:
    """The misspelt field is the last in the file, and the cause of the others."""
    pod = write(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"
        "  resourceClaims: [{name: spare, resourceClaimName: c}]\n"
        "  containers: [{name: main, image: i, resources: {claims: [{name: gpu}]}}]\n"
        "  resourceClaim: [{name: gpu, resourceClaimTemplateName: t}]\n"
    )
    found = re.findall(r":(\d+):\d+: (\w+)\[([\w-]+)\]", run("lint", pod).stdout)
    assert found == [
        ("7", "error", "rejected"),
        ("6", "error", "rejected"),
        ("5", "warning", "missing-claim"),
        ("5", "warning", "unused-claim"),
    ]
    # Programs get the findings in the order of the file.
    assert [row["line"] for row in json.loads(run("lint", "-o", "json", pod).stdout)] == [5, 5, 6, 7]
