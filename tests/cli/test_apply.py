from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from click.testing import Result

from dray.api.catalogue import find
from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.interface import WriteOptions
from dray.client.kubeconfig import Kubeconfig

Write = Callable[..., str]
Dray = Callable[..., Result]

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {k: "1"}
"""


def test_created_configured_unchanged(dray: Dray, write: Write) -> None:
    said = [dray("apply", "-f", write(text)).stdout for text in (CONFIG, CONFIG, CONFIG.replace('"1"', '"2"'))]
    assert said == ["configmap/a created\n", "configmap/a unchanged\n", "configmap/a configured\n"]
    shown = json.loads(dray("get", "cm", "a", "-o", "json").stdout)
    assert shown["data"] == {"k": "2"}


def test_what_a_file_no_longer_says_is_taken_away(dray: Dray, write: Write) -> None:
    dray("apply", "-f", write(CONFIG.replace("{k:", "{gone: x, k:")))
    assert dray("apply", "--server-side", "-f", write(CONFIG)).stdout == "configmap/a configured\n"
    assert json.loads(dray("get", "cm/a", "-o", "json").stdout)["data"] == {"k": "1"}


def test_dry_run_keeps_nothing_and_tells_what_would_be(dray: Dray, write: Write) -> None:
    dry = ("apply", "--dry-run", "-f")
    assert dray(*dry, write(CONFIG)).stdout == "configmap/a created (server dry run)\n"
    assert dray("get", "cm", "a").exit_code == 1
    dray("apply", "-f", write(CONFIG))
    assert dray(*dry, write(CONFIG)).stdout == "configmap/a unchanged (server dry run)\n"
    assert dray(*dry, write(CONFIG.replace('"1"', '"2"'))).stdout == "configmap/a configured (server dry run)\n"


def test_namespaces_and_definitions_go_first(dray: Dray, write: Write) -> None:
    text = """\
        apiVersion: example.com/v1
        kind: Widget
        metadata: {name: w, namespace: team}
        spec: {size: 3}
        ---
        apiVersion: v1
        kind: Namespace
        metadata: {name: team}
        ---
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: widgets.example.com}
        spec:
          group: example.com
          scope: Namespaced
          names: {plural: widgets, singular: widget, kind: Widget}
          versions:
          - name: v1
            served: true
            storage: true
            schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
        """
    result = dray("apply", "-f", write(text))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "namespace/team created",
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created",
        "widget.example.com/w created",
    ]


def test_a_refusal_is_shown_at_its_line_and_the_rest_applied(dray: Dray, write: Write) -> None:
    claim = """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec: {devices: {requests: [{name: gpu, exactly: {
          deviceClassName: NOT valid}}]}}
        """
    result = dray("apply", "-f", write(claim, "c.yaml"), "-f", write(CONFIG))
    assert (result.exit_code, result.stdout) == (1, "configmap/a created\n")
    place = "c.yaml:5:3: error: ResourceClaim c: spec.devices.requests[0].exactly.deviceClassName: Invalid value"
    assert result.stderr.startswith(place)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nmetadata: {name: p}", "m.yaml:1:1: error: Pod p: apiVersion is required"),
        ("apiVersion: v1\nmetadata: {name: p}", "m.yaml:1:1: error: p: kind is required"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: p}", "m.yaml:3:1: error: Pod: a name is required"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a/b}", "m.yaml:3:12: error: Pod a/b: 'a/b' cannot be a name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ..}", "m.yaml:3:21: error: Pod a: '..' cannot be"),
        (
            "apiVersion: x.io/v1\nkind: Pod\nmetadata: {name: p}",
            'm.yaml:2:1: error: Pod p: the server has no kind "Pod"',
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbogus: 1",
            "m.yaml:4:1: error: ConfigMap a: bogus: unknown",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    comand: [x]",
            'm.yaml:7:5: error: Pod a: spec.containers[0].comand: unknown field "comand" (did you mean command?)',
        ),
    ],
)
def test_what_cannot_be_applied(dray: Dray, write: Write, text: str, said: str) -> None:
    result = dray("apply", "-f", write(text))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(said)


def test_a_file_that_cannot_be_read_does_not_stop_the_others(dray: Dray, write: Write) -> None:
    result = dray("apply", "-f", write("a: [", "bad.yaml"), "-f", write(CONFIG))
    assert (result.exit_code, result.stdout) == (2, "configmap/a created\n")
    assert result.stderr.startswith("bad.yaml:1:")


def test_standard_input(dray: Dray) -> None:
    assert dray("apply", "-f", "-", stdin=CONFIG).stdout == "configmap/a created\n"


def test_the_namespace_of_the_command_line(dray: Dray, write: Write) -> None:
    dray("apply", "-f", write("apiVersion: v1\nkind: Namespace\nmetadata: {name: team}"))
    assert dray("apply", "-n", "team", "-f", write(CONFIG)).exit_code == 0
    assert dray("get", "cm", "a", "-n", "team", "-o", "name").stdout == "configmap/a\n"
    other = dray("apply", "-n", "default", "-f", write(CONFIG.replace("{name: a}", "{name: a, namespace: team}")))
    assert other.exit_code == 1
    assert other.stderr.startswith('m.yaml:3:21: error: ConfigMap a: the namespace "team" is not the "default"')


def test_conflicts_name_the_field_and_can_be_forced(dray: Dray, write: Write) -> None:
    dray("apply", "-f", write(CONFIG))
    asyncio.run(change_as_another_manager())
    refused = dray("apply", "-f", write(CONFIG.replace('"1"', '"3"')))
    assert refused.exit_code == 1
    assert refused.stderr.startswith('m.yaml:4:8: error: ConfigMap a: .data.k: conflict with "other"')
    assert "--force-conflicts" in refused.stderr
    forced = dray("apply", "--force-conflicts", "-f", write(CONFIG.replace('"1"', '"3"')))
    assert forced.stdout == "configmap/a configured\n"


async def change_as_another_manager() -> None:
    config_map = find("v1", "ConfigMap")
    assert config_map is not None
    async with ApiClient(HttpTransport(Kubeconfig.load().endpoint())) as client:
        change = {"data": {"k": "2"}}
        await client.patch(config_map, "a", change, namespace="default", options=WriteOptions("other"))


def test_a_value_that_cannot_be_read_is_shown_at_its_line(dray: Dray, write: Write) -> None:
    result = dray("apply", "-f", write(CONFIG.replace('"1"', "no")))
    assert result.exit_code == 1
    assert result.stderr == (
        "m.yaml:4:8: error: ConfigMap a: data[k]: expected a string, found a boolean "
        "(quote it: YAML reads y, n, yes, no, on and off as booleans)\n"
    )


@pytest.mark.parametrize(
    ("api_version", "kind", "advice"),
    [
        ("lifecycle.k8s.io/v1alpha1", "EvictionRequest", "dray's own server does not serve all kinds of Kubernetes"),
        ("resource.k8s.io/v1alpha2", "ResourceClaim", "`dray convert` rewrites old versions"),
        ("resource.nvidia.com/v1beta1", "ComputeDomain", "dray does not create channels and IMEX daemons for it"),
        ("example.com/v1", "Thing", "apply its CustomResourceDefinition first"),
    ],
)
def test_a_kind_that_is_not_served(dray: Dray, write: Write, api_version: str, kind: str, advice: str) -> None:
    result = dray("apply", "-f", write(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n"))
    assert result.exit_code == 1
    assert f'the server has no kind "{kind}" in version "{api_version}"; {advice}' in result.stderr


@pytest.mark.parametrize(
    ("objects", "refused", "advice"),
    [
        (
            "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {configmaps: 1}}}",
            CONFIG,
            "delete something in the namespace, or ask for a higher quota",
        ),
        (
            CONFIG,
            "{apiVersion: v1, kind: Pod, metadata: {name: p},"
            " spec: {priorityClassName: urgent, containers: [{name: c, image: i}]}}",
            "`dray get priorityclasses` lists the names",
        ),
    ],
)
def test_a_refusal_comes_with_advice_that_fits_its_cause(
    dray: Dray, write: Write, objects: str, refused: str, advice: str
) -> None:
    assert dray("apply", "-f", write(objects)).exit_code == 0
    done = dray("apply", "-f", write(refused))
    assert done.exit_code == 1
    assert advice in done.stderr
    assert "ask for a role" not in done.stderr
