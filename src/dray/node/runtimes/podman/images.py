"""Images of containers: found on the machine, or pulled as the policy of the container says.

A name without a registry is what podman makes of it (registries.conf), and the credentials are those of podman login.
Images are never removed: podman image prune is the user's.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from dray.node.runtimes.interface import Image, StartError
from dray.node.runtimes.podman.command import Podman, PodmanError

_PULL_SECONDS: Final = 3600.0
_LONGEST: Final = 512
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE: Final = re.compile(
    rf"(?:{_REGISTRY}/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?(?:@[a-zA-Z][\w+.-]*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image on the machine; `id` is shown in the container's status, `user` is the image's default user."""

    id: str
    user: str = ""


class Images:
    def __init__(self, podman: Podman) -> None:
        self._podman = podman
        self._pulling: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ready(self, name: str, policy: str) -> LocalImage:
        """Returns the image, pulled if the policy says so.

        Raises StartError with the kubelet's reason: InvalidImageName, ErrImageNeverPull or ErrImagePull.
        """
        check_name(name)
        if policy == "Always":
            await self._pull(name)
        found = await self._find(name)
        if found is None and policy == "Never":
            message = f'Container image "{name}" is not present with pull policy of Never'
            raise StartError("ErrImageNeverPull", message)
        if found is None:
            await self._pull(name)
            found = await self._find(name)
        if found is None:
            raise StartError("ErrImagePull", f'failed to pull image "{name}": it was removed again')
        return found

    async def _find(self, name: str) -> LocalImage | None:
        try:
            (found,) = json.loads(await self._podman.run("image", "inspect", name))
        except PodmanError:
            return None
        digests = found.get("RepoDigests") or ()
        # A locally built image was never in a registry and cannot be pulled by its digest.
        pulled = next((digest for digest in digests if not digest.startswith("localhost/")), "")
        return LocalImage(pulled or f"sha256:{found['Id']}", str((found.get("Config") or {}).get("User") or ""))

    async def _pull(self, name: str) -> None:
        async with self._pulling[name]:
            try:
                await self._podman.run("pull", "--quiet", name, seconds=_PULL_SECONDS)
            except PodmanError as error:
                raise StartError("ErrImagePull", f'failed to pull image "{name}": {error}') from None

    async def all(self) -> list[Image]:
        listed: list[dict[str, Any]] = json.loads(await self._podman.run("images", "--format", "json"))
        return [
            Image(names, int(image.get("Size") or 0))
            for image in listed
            if (names := tuple(map(str, image.get("Names") or ())))
        ]


def check_name(name: str) -> None:
    if len(name) > _LONGEST or not _REFERENCE.fullmatch(name):
        shown = name if len(name) <= _LONGEST else name[:_LONGEST] + "..."
        raise StartError("InvalidImageName", f'couldn\'t parse image name "{shown}": invalid reference format')
