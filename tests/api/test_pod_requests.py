from __future__ import annotations

from typing import Any

import pytest

from dray.api import pod_requests as requests
from tests.scheduling.models import container

MI = 1024 * 1024


def init(name: str = "i", *, sidecar: bool = False, **amounts: str) -> dict[str, Any]:
    return {**container(name, **amounts), **({"restartPolicy": "Always"} if sidecar else {})}


CASES = {
    "containers add up": ({"containers": [container(cpu="100m"), container(cpu="1", memory="1Mi")]}, (1100, MI)),
    "nothing": ({"containers": [container()]}, (0, 0)),
    "the largest init container": (
        {"initContainers": [init(cpu="2"), init(cpu="3")], "containers": [container(cpu="1", memory="5Mi")]},
        (3000, 5 * MI),
    ),
    "sidecars run beside the containers": (
        {"initContainers": [init(sidecar=True, cpu="1")], "containers": [container(cpu="1")]},
        (2000, 0),
    ),
    "sidecars run beside later init containers only": (
        {
            "initContainers": [init(cpu="3"), init(sidecar=True, cpu="1"), init(cpu="2500m")],
            "containers": [container(cpu="1")],
        },
        (3500, 0),
    ),
    "overhead comes on top": ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, (1250, 0)),
    "the pod as a whole": (
        {
            "containers": [container(cpu="1", memory="1Mi")],
            "resources": {"requests": {"cpu": "4", "ephemeral-storage": "1"}},
            "overhead": {"cpu": "1"},
        },
        (5000, MI),
    ),
    "rounded up when added up": (
        {"containers": [container(cpu="100u", memory="0.4"), container(cpu="100u", memory="0.4")]},
        (1, 1),
    ),
    "plain numbers": ({"containers": [{"resources": {"requests": {"cpu": 2, "memory": 0.5}}}]}, (2000, 1)),
    "not amounts": ({"containers": [container(cpu="x"), None, {"resources": None}], "overhead": None}, (0, 0)),
}


@pytest.mark.parametrize(("spec", "expected"), CASES.values(), ids=CASES)
def test_requests(spec: Any, expected: tuple[int, int]) -> None:
    found = requests.requests(spec)
    assert (found.get("cpu", 0), found.get("memory", 0)) == expected
    assert 0 not in found.values()


def test_other_resources_count_in_whole_units() -> None:
    spec = {"containers": [container(**{"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1k"})]}
    assert requests.requests(spec) == {"example.com/gpu": 2, "hugepages-2Mi": 4 * MI, "ephemeral-storage": 1000}


SCORING = {
    "assumed for each container": ({"containers": [container(), container(cpu="1")]}, (1100, 400 * MI)),
    "zero is an answer": ({"containers": [container(cpu="0", memory="0")]}, (0, 0)),
    "also for init containers": ({"containers": [container(cpu="50m")], "initContainers": [init()]}, (100, 200 * MI)),
    "not where the pod says it": (
        {"containers": [container()], "resources": {"requests": {"cpu": "1"}}},
        (1000, 200 * MI),
    ),
}


@pytest.mark.parametrize(("spec", "expected"), SCORING.values(), ids=SCORING)
def test_scoring(spec: Any, expected: tuple[int, int]) -> None:
    found = requests.scoring(spec)
    assert (found.get("cpu", 0), found.get("memory", 0)) == expected
