"""Creates pods that any cluster can place, one after the other, and waits until each is bound.

They have a node, devices and a namespace to themselves: what else happens in the cluster leaves them room.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any

from tests.attacks.observer import observe
from tests.attacks.requests import request

NAME = "canary"
PODS = f"/api/v1/namespaces/{NAME}/pods"
DRIVER = "canary.example.com"
TAINT = {"key": DRIVER, "effect": "NoSchedule", "value": "only"}
SELECTOR = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
REQUEST = {
    "deviceClassName": NAME,
    "selectors": [SELECTOR],
    # Only tolerations that name the effect keep a pod from being evicted.
    "tolerations": [{"operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute"}],
}
RESOURCE = "resource.k8s.io/v1"
ROOM: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME, "labels": {"for": NAME}},
        "spec": {"taints": [TAINT]},
    },
    {
        "apiVersion": RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": NAME},
        "spec": {
            "driver": DRIVER,
            "nodeName": NAME,
            "pool": {"name": NAME, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"device-{each}", "taints": [TAINT]} for each in range(64)],
        },
    },
    {"apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": NAME}, "spec": {"selectors": [SELECTOR]}},
    {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": NAME, "namespace": NAME},
        "spec": {"spec": {"devices": {"requests": [{"name": "device", "exactly": REQUEST}]}}},
    },
]


def pod(name: str, *, with_claim: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "nodeSelector": {"for": NAME},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}],
    }
    if with_claim:
        spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": NAME}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Bound:
    """Measures the time from a pod's creation to its binding; every second pod has a claim."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._start = f"{time.time_ns():x}"
        self._numbers = itertools.count()
        self._last = ""

    def __call__(self) -> None:
        number = next(self._numbers)
        self._last = f"{NAME}-{self._start}-{number}"
        answer = request(self._url, "POST", PODS, pod(self._last, with_claim=number % 2 == 1))
        assert answer.status == 201, f"{answer.status} {answer.body[:500]!r}"
        end = time.monotonic() + 30
        while not (found := self._get())["spec"].get("nodeName"):
            assert time.monotonic() < end, f"{self._last} is not bound: {found.get('status')}"
            time.sleep(0.01)

    def _get(self) -> Any:
        answer = request(self._url, "GET", f"{PODS}/{self._last}")
        assert answer.status == 200, f"{answer.status} {answer.body[:500]!r}"
        return answer.json()

    def delete(self) -> None:
        request(self._url, "DELETE", f"{PODS}/{self._last}?gracePeriodSeconds=0")


if __name__ == "__main__":
    bound = Bound(sys.argv[1])
    observe(bound, int(sys.argv[2]), after=bound.delete, pause=0.1)
