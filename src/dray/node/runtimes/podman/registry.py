"""Registry of the containers of a runtime: what podman said of each, kept while its conmon is there.

It is read from podman once, by the labels that earlier agents gave their containers; after that only this process makes
and removes them, and podman is asked again about a container when its conmon has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

from dray.node.runtimes.interface import StartError
from dray.node.runtimes.podman import conmon, in_flight, labels, reaper
from dray.node.runtimes.podman.command import Podman, PodmanError
from dray.node.runtimes.podman.found import FoundContainer, found_container
from dray.node.runtimes.podman.sandboxes import Sandboxes

_AT_ONCE: Final = 50
_LOOKS: Final = 5


class Registry:
    def __init__(self, podman: Podman, root: Path, sandboxes: Sandboxes, ends_with: int) -> None:
        self._podman = podman
        self._sandboxes = sandboxes
        self._known: dict[str, FoundContainer] = {}
        """Containers by id, with the scheme."""
        self._root, self._ends_with = root, ends_with
        self._loaded = False
        self._loading = asyncio.Lock()

    async def load(self) -> None:
        """Loads the containers of earlier agents, once. Raises StartError."""
        async with self._loading:
            if self._loaded:
                return
            if self._ends_with:
                reaper.start(self._podman, self._root, self._ends_with)
            await in_flight.landed(self._root)
            for inspected in await self._left():
                if inspected["Config"]["Labels"].get(labels.CONTAINER) == labels.SANDBOX:
                    self._sandboxes.add(inspected)
                elif (found := found_container(inspected)) is not None:
                    self.add(found)
            self._loaded = True

    async def _left(self) -> list[dict[str, Any]]:
        problem = ""
        for _ in range(_LOOKS):
            try:
                ids = await self.listed()
                parts = [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]
                return [inspected for part in parts for inspected in await self._podman.inspect(*part)]
            except PodmanError as error:
                # A listed container may have been removed meanwhile.
                problem = str(error)
        raise StartError("RuntimeNotReady", f"podman cannot list its containers: {problem}")

    # What is known

    def get(self, container_id: str) -> FoundContainer | None:
        return self._known.get(container_id)

    def running(self, container_id: str) -> FoundContainer | None:
        """Returns the container if it runs; None if it or its conmon has ended."""
        found = self._known.get(container_id)
        return found if found is not None and found.state.running and _has_conmon(found) else None

    def all(self) -> list[FoundContainer]:
        return list(self._known.values())

    def add(self, container: FoundContainer) -> None:
        self._known[container.state.id] = container

    def forget(self, container_id: str) -> None:
        self._known.pop(container_id, None)

    # What podman has

    async def listed(self, *filters: str) -> list[str]:
        """Returns the ids of all containers and sandboxes, including those of earlier agents. Raises PodmanError."""
        wanted = [part for each in (f"label={labels.ROOT}={self._root}", *filters) for part in ("--filter", each)]
        return (await self._podman.run("ps", "--all", "--quiet", "--no-trunc", *wanted)).split()

    async def delete(self, ids: Sequence[str]) -> None:
        """Removes containers and everything that depends on them. Raises PodmanError."""
        if ids:
            await self._podman.run("rm", "--force", "--time", "0", "--volumes", "--ignore", "--depend", *ids)

    async def delete_pod(self, pod_uid: str) -> None:
        """Removes all containers of the pod that podman lists: an agent may have been killed while it started one.

        Retries, because podman may fail the first time if a container has lost its conmon. Raises StartError.
        """
        problem = "podman still has them"
        for _ in range(_LOOKS):
            try:
                ids = await self.listed(f"label={labels.POD_UID}={pod_uid}")
                if not ids:
                    self._known = {name: each for name, each in self._known.items() if each.state.pod_uid != pod_uid}
                    return
                await self.delete(ids)
            except PodmanError as error:
                problem = str(error)
        raise StartError("KillPodSandboxError", f"containers of the pod are not removed: {problem}")

    async def renewed(self, container: FoundContainer) -> FoundContainer:
        """Returns the container as podman reports it now, if its conmon has ended."""
        if not container.state.running or _has_conmon(container):
            return container
        found = await self._ended(container)
        # Podman 4.3 does not read this file.
        if (found.directory / "oom").exists() and found.state.exit_code == 128 + SIGKILL:
            found = replace(found, state=replace(found.state, oom_killed=True))
        if container.state.id in self._known:
            self.add(found)
        return found

    async def _ended(self, container: FoundContainer) -> FoundContainer:
        """Returns the final state of a container without conmon; kills it if it still runs, as nothing watches it."""
        with contextlib.suppress(PodmanError):
            found = found_container((await self._podman.inspect(container.id))[0], container.state.image_id)
            if found is not None and not found.state.running:
                return found
            if found is not None:
                # Otherwise podman would wait for conmon to report the end.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found.pid, SIGKILL)
        state = replace(container.state, finished_at=time.time(), exit_code=128 + SIGKILL)
        return replace(container, state=state)


def _has_conmon(container: FoundContainer) -> bool:
    return conmon.is_alive(container.monitor, container.id)
