"""Bodies that kubectl sent, bodies made for the purpose, and bytes that are neither."""

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.server.protobuf.envelope import MAGIC, MAX_BODY, decode_body
from dray.server.status import ApiError

from .encoding import body, field, message, number, varint

RECORDED = [json.loads(line) for line in Path(__file__).with_name("kubectl.jsonl").read_text().splitlines()]
MOMENT = "2026-01-02T03:04:05Z"
MICRO = "2026-01-02T03:04:05.678901Z"

EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    (
        "Lease",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "l",
                "creationTimestamp": MOMENT,
                "deletionGracePeriodSeconds": -1,
                "labels": {"a": "b", "empty": ""},
                "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u", "apiVersion": "v1", "controller": False}],
                "finalizers": ["a/b", "c/d"],
                "managedFields": [{"manager": "m", "time": MOMENT, "fieldsV1": {"f:spec": {".": {}}}}],
            },
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": MICRO},
        },
    ),
    (
        "Eviction",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p"},
            "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]},
        },
    ),
    (
        "Event",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
            "source": {"component": "kubelet"},
            "firstTimestamp": MOMENT,
            "count": 3,
            "eventTime": MICRO,
            "series": {"count": 2, "lastObservedTime": MICRO},
        },
    ),
    ("events.Event", {"apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": MICRO, "note": "n"}),
    ("DeleteOptions", {"apiVersion": "batch/v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}),
    ("Binding", {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n"}}),
    (
        "SubjectAccessReview",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "u", "groups": ["g"], "extra": {"scopes": ["a", "b"], "none": []}},
        },
    ),
    (
        "PodDisruptionBudget",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": -3, "maxUnavailable": "5%"},
        },
    ),
    (
        "Node",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDRs": ["10.0.0.0/24"]},
            "status": {
                "capacity": {"cpu": "4"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
                "nodeInfo": {"kubeletVersion": "v1.37.0", "swap": {"capacity": 0}},
            },
        },
    ),
    (
        "Pod",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "volumes": [
                    {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}},
                    {"name": "b", "configMap": {"name": "m", "defaultMode": 420, "items": [{"key": "k", "path": "p"}]}},
                    {"name": "c", "projected": {"sources": [{"secret": {"name": "s", "optional": True}}]}},
                ],
                "containers": [
                    {
                        "name": "m",
                        "resources": {"limits": {"cpu": "2"}, "claims": [{"name": "gpu", "request": "r"}]},
                        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
                        "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                    }
                ],
                "ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "m"}],
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]}
                },
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
            },
        },
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in RECORDED])
def test_what_kubectl_sends(case: dict[str, Any]) -> None:
    data = base64.b64decode(case["body"])
    if isinstance(case["expect"], int):
        with pytest.raises(ApiError) as refused:
            decode_body(data)
        assert refused.value.code == case["expect"]
    else:
        assert _contains(decode_body(data), case["expect"])


def _contains(found: Any, expected: Any) -> bool:
    """Protobuf carries what is empty, too."""
    if isinstance(expected, dict):
        return all(name in found and _contains(found[name], value) for name, value in expected.items()) and all(
            not value or name in expected for name, value in found.items()
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_contains, found, expected))
    return bool(found == expected)


@pytest.mark.parametrize(("name", "document"), EXAMPLES)
def test_what_is_written_is_read(name: str, document: dict[str, Any]) -> None:
    assert decode_body(body(document, name)) == document


def test_a_zero_time_is_none() -> None:
    data = field(1, field(8, b""))
    assert decode_body(MAGIC + field(2, data), api_version="v1", kind="Secret")["metadata"] == {}


@pytest.mark.parametrize(
    "unknown", [number(99, 7), field(98, b"x"), varint(97 << 3 | 1) + b"8" * 8, varint(96 << 3 | 5) + b"4444"]
)
def test_members_that_are_not_known_are_not_lost(unknown: bytes) -> None:
    known = message({"data": {"a": "b"}}, "ConfigMap")
    with pytest.raises(ApiError, match="ConfigMap has no member with number 9") as refused:
        decode_body(MAGIC + field(2, unknown + known), api_version="v1", kind="ConfigMap")
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", 400),
        (b"{}", 400),
        (MAGIC + b"\xff", 400),
        (MAGIC + varint(1 << 3 | 2) + varint(100) + b"short", 400),
        (MAGIC + varint(1 << 3 | 3), 400),
        (MAGIC + varint(2), 400),
        (MAGIC + b"\x80" * 11, 400),
        (body({"apiVersion": "v1", "kind": "Endpoints"}, "TypeMeta"), 415),
        (body({"apiVersion": "apps/v1", "kind": "ConfigMap"}, "ConfigMap"), 415),
        (MAGIC + field(1, message({"apiVersion": "v1", "kind": "ConfigMap"}, "TypeMeta")) + field(3, b"gzip"), 415),
        (
            MAGIC + field(1, message({"apiVersion": "v1", "kind": "Secret"}, "TypeMeta")) + field(2, field(3, b"\xff")),
            400,
        ),
        (MAGIC + field(1, message({"apiVersion": "v1", "kind": "Secret"}, "TypeMeta")) + field(2, number(3, 1)), 400),
        (MAGIC + field(1, message({"apiVersion": "v1", "kind": "Secret"}, "TypeMeta")) + field(2, field(5, b"")), 400),
        (MAGIC + b"\x00" * MAX_BODY, 413),
    ],
)
def test_refusals(data: bytes, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        decode_body(data)
    assert refused.value.code == code


def test_times_out_of_range_are_refused() -> None:
    late = field(1, field(8, number(1, 1 << 62)))
    with pytest.raises(ApiError):
        decode_body(MAGIC + field(2, late), api_version="v1", kind="Secret")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for content in (data, field(2, data), field(2, field(1, data)), field(2, field(1, field(17, data)))):
        with suppress(ApiError):
            decode_body(MAGIC + content, api_version="v1", kind="Event")


@settings(deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_damaged_bodies_are_read_or_refused(example: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    whole = bytearray(body(example[1], example[0]))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ApiError):
        decode_body(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
