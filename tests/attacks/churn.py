"""Objects that come, change and go without end, while only a few hundred are there at a time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp

NAMESPACE = "/api/v1/namespaces/default"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MERGE = {"Content-Type": "application/merge-patch+json"}
LIVE = 400
_WORKERS = 8


class Churn:
    """Writes to a server, every object unlike all others: names, labels, requests and selectors are never the same."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._random = random.Random(seed)
        self._live: list[str] = []
        self._number = 0
        self.writes = 0

    def run(self, writes: int) -> None:
        asyncio.run(self._run(self.writes + writes))

    async def _run(self, upto: int) -> None:
        async with aiohttp.ClientSession(self._url) as session:
            await asyncio.gather(*(self._work(session, upto) for _ in range(_WORKERS)))

    async def _work(self, session: aiohttp.ClientSession, upto: int) -> None:
        while self.writes < upto:
            self.writes += 1
            if len(self._live) >= LIVE:
                path = self._live.pop(self._random.randrange(len(self._live)))
                async with session.delete(path) as answer:
                    assert answer.status in (200, 202, 404), await answer.text()
            elif self._live and self._random.random() < 0.4:
                path = self._random.choice(self._live)
                labels = {f"k{self.writes}": f"v{self.writes}"}
                async with session.patch(path, json={"metadata": {"labels": labels}}, headers=MERGE) as answer:
                    assert answer.status in (200, 404, 409), await answer.text()
            else:
                self._number += 1
                path, document = self._random.choice((_config_map, _claim, _pod))(self._number)
                async with session.post(path, json=document) as answer:
                    assert answer.status == 201, await answer.text()
                self._live.append(f"{path}/{document['metadata']['name']}")


def _config_map(number: int) -> tuple[str, Any]:
    return f"{NAMESPACE}/configmaps", {"metadata": {"name": f"m{number}"}, "data": {f"k{number}": "x" * 2000}}


def _claim(number: int) -> tuple[str, Any]:
    selectors = [{"cel": {"expression": f'device.attributes["d{number}.example"].a{number} == {number}'}}]
    exactly = {"deviceClassName": "gpu", "selectors": selectors}
    return CLAIMS, {
        "metadata": {"name": f"c{number}"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def _pod(number: int) -> tuple[str, Any]:
    requests = {"cpu": f"{1 + number % 977}m", "memory": f"{number}Ki"}
    container = {"name": "c", "image": f"image-{number}", "resources": {"requests": requests}}
    term = {"labelSelector": {"matchLabels": {"app": f"a{number}"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {
        "containers": [container],
        "affinity": affinity,
        "nodeSelector": {"nowhere": str(number)} if number % 3 else {},
    }
    if number % 2 and number > 1:
        spec["resourceClaims"] = [{"name": "r", "resourceClaimName": f"c{number - 1}"}]
    return f"{NAMESPACE}/pods", {"metadata": {"name": f"p{number}", "labels": {"app": f"a{number}"}}, "spec": spec}
