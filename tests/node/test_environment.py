"""Environments and arguments that grow: no more is made of them than Linux would take."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dray.node.environment import arguments, environment, expanded
from dray.node.errors import SetupError
from dray.node.pod_objects import PodObjects
from dray.testing.cluster import LocalCluster
from dray.testing.objects import config_map, pod


async def made(cluster: LocalCluster, **members: Any) -> dict[str, str]:
    objects = PodObjects(cluster.client, cluster.time)
    return await environment(pod("p", namespace="default"), {"name": "c", **members}, objects, {}, {}, {})


def doubled(count: int) -> list[dict[str, str]]:
    """Variables of which each is twice as long as the one before."""
    first = {"name": "V0", "value": "x" * 1000}
    return [first, *({"name": f"V{n}", "value": f"$(V{n - 1})" * 2} for n in range(1, count))]


async def test_variables_that_name_each_other_do_not_grow_without_limit() -> None:
    async with LocalCluster() as cluster:
        assert len((await made(cluster, env=doubled(7)))["V6"]) == 64_000
        # The last of them would have more than a million million bytes.
        with pytest.raises(SetupError, match="expands to more than 131072 bytes"):
            await made(cluster, env=doubled(32))


async def test_config_maps_that_are_named_often_do_not_fill_the_memory() -> None:
    async with LocalCluster(objects=[config_map("c", {"k": "x" * 900_000}, namespace="default")]) as cluster:
        sources = [{"prefix": f"p{n}", "configMapRef": {"name": "c"}} for n in range(6)]
        assert len(await made(cluster, envFrom=sources)) == 6
        with pytest.raises(SetupError, match="environment or arguments have more than 6291456 bytes"):
            await made(cluster, envFrom=[*sources, {"prefix": "q", "configMapRef": {"name": "c"}}])


@pytest.mark.parametrize(
    ("container", "place"),
    [
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            "variable A from Secret default/s, key k",
        ),
        ({"envFrom": [{"prefix": "P_", "secretRef": {"name": "s"}}]}, "variable P_k from Secret default/s, key k"),
    ],
)
async def test_a_value_with_a_nul_byte_is_refused_with_the_name_of_its_variable(
    container: dict[str, Any], place: str
) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "data": {"k": base64.b64encode(b"a\0b").decode()},
    }
    async with LocalCluster(objects=[secret]) as cluster:
        with pytest.raises(SetupError) as caught:
            await made(cluster, **container)
    assert str(caught.value) == f"{place}: the value has a NUL byte, which no variable can hold; mount it as a file"


def test_arguments_do_not_grow_without_limit() -> None:
    values = {"V": "x" * 100_000}
    assert arguments(["$(V)"] * 60, values) == (values["V"],) * 60
    with pytest.raises(SetupError, match="environment or arguments have more than 6291456 bytes"):
        arguments(["$(V)"] * 1_000_000, values)
    with pytest.raises(SetupError, match="expands to more than 131072 bytes"):
        expanded("$(V)" * 1_000_000, values)
