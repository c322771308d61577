"""Attempts to fill the memory of a running cluster, and to take its connections: others do not notice."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.attacks.cluster import Cluster, withstands

NAMESPACE = "/api/v1/namespaces/default"
MAPS = f"{NAMESPACE}/configmaps"
PODS = f"{NAMESPACE}/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MERGE = {"Content-Type": "application/merge-patch+json"}
MiB = 1 << 20


def pod(name: str, size: int = 0, **spec: Any) -> Any:
    container = {"name": "c", "image": "x", "env": [{"name": "A", "value": "x" * size}]}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def test_objects_do_not_grow_and_their_past_is_not_kept(tmp_path: Path) -> None:
    """A large object that patches try to grow, 40 small patches of it, and 40 replacements of a megabyte."""

    def attack(cluster: Cluster) -> None:
        cluster.create(PODS, pod("big", 900_000, nodeName="nowhere"))
        before = cluster.memory
        codes = set()
        for number in range(12):
            body = {"status": {"message": "y" * (300_000 + number * 200_000)}}
            codes.add(cluster.request("PATCH", f"{PODS}/big/status", body, headers=MERGE).status)
        assert codes == {200, 413}
        for number in range(40):
            body = {"metadata": {"labels": {"n": str(number)}}}
            assert cluster.request("PATCH", f"{PODS}/big", body, headers=MERGE).status == 200
        cluster.create(MAPS, {"metadata": {"name": "m"}, "data": {}})
        for number in range(40):
            body = {"metadata": {"name": "m"}, "data": {"a": f"{number}" + "x" * 1_000_000}}
            assert cluster.request("PUT", f"{MAPS}/m", body).status == 200
        assert cluster.memory - before < 250 * MiB

    withstands(tmp_path, attack)


def test_selectors_of_claims_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    def claim(name: str, first: int) -> Any:
        expressions = [
            f'device.attributes["gpu.example.com"].?a{first + n}.orValue(0) == {first + n}' for n in range(992)
        ]
        requests = [
            {"name": f"r{part}", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
            for part in range(32)
            if (selectors := [{"cel": {"expression": each}} for each in expressions[31 * part : 31 * part + 31]])
        ]
        return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}

    def attack(cluster: Cluster) -> None:
        sizes = []
        for turn in range(3):
            for number in range(3):
                name = f"c{turn}-{number}"
                cluster.create(CLAIMS, claim(name, 1000 * (3 * turn + number)))
                cluster.create(PODS, pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
            time.sleep(1)
            for number in range(3):
                assert cluster.request("DELETE", f"{PODS}/c{turn}-{number}").status == 200
                assert cluster.request("DELETE", f"{CLAIMS}/c{turn}-{number}").status == 200
            sizes.append(cluster.memory)
        assert sizes[-1] - sizes[0] < 60 * MiB, sizes

    withstands(tmp_path, attack)


def test_lists_that_nobody_reads_and_heads_that_do_not_end(tmp_path: Path) -> None:
    """Forty clients ask for 10 MB each and do not read; a hundred more send one byte of a head."""

    def attack(cluster: Cluster) -> None:
        for number in range(20):
            cluster.create(MAPS, {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 500_000}})
        before = cluster.memory
        with contextlib.ExitStack() as open_:
            for _ in range(40):
                client = open_.enter_context(connected(cluster))
                client.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            for _ in range(100):
                open_.enter_context(connected(cluster)).sendall(b"G")
            time.sleep(1)
            assert len(cluster.get(MAPS)["items"]) >= 20
            assert cluster.memory - before < 200 * MiB

    withstands(tmp_path, attack)


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[socket.socket]:
    parts = urlsplit(cluster.url)
    assert parts.hostname
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect((parts.hostname, parts.port))
        yield client
