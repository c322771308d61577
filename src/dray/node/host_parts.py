"""Host parts: processes of this machine that the agent did not start and the API server shows as pods all the same.

The parts of a control plane that runs beside the agent are such. Each has a static pod in kube-system, whose mirror the
agent keeps at the API server, and a log where those of containers are. The part tells of itself by a file beside its
log (`begin`): which process it is, since when, and the how manieth. The agent looks at the file and at the process, and
reports; it neither starts nor ends one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import md5
from pathlib import Path
from typing import Final

import msgspec

from dray.api.objects import Key, Object, key_of, uid_of
from dray.api.pods import HASH_ANNOTATION
from dray.client.api import ApiClient
from dray.client.clock import TimeOfDay, timestamp
from dray.node.container_records import records_of
from dray.node.pod_status import PodState, status
from dray.node.pod_status_writer import PodStatusWriter
from dray.node.runtimes.interface import ContainerState
from dray.process.identity import started_at

NAMESPACE: Final = "kube-system"
_RUN: Final = "run.json"
_LOOK_SECONDS: Final = 1.0
# The exit code is known only to the process that started it.
_UNKNOWN_EXIT: Final = 137
_IMAGE: Final = "dray"


@dataclass(frozen=True, slots=True)
class HostPart:
    """A process that is shown as a pod; `name` is its container's name, and the pod's name with the node's appended."""

    name: str
    command: tuple[str, ...]


class Run(msgspec.Struct, frozen=True):
    attempt: int
    pid: int
    started: str
    started_at: float


def log_directory(root: Path, name: str, node: str) -> Path:
    """Returns the directory in which `PodSetup` expects the logs of the container."""
    return root / "logs" / f"{NAMESPACE}_{name}-{node}_{_uid(name, node)}" / name


def begin(root: Path, name: str, node: str) -> Path:
    """Records the calling process as the host part. Returns the path of its log."""
    directory = log_directory(root, name, node)
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    before = _read(directory)
    attempt = before.attempt + 1 if before is not None else 0
    for old in directory.glob("*.log*"):
        # The log of the run before is there for `--previous`.
        if old.name.partition(".")[0] not in (str(attempt), str(attempt - 1)):
            old.unlink()
    run = Run(attempt, os.getpid(), started_at(os.getpid()), time.time())
    made = directory / f"{_RUN}.new"
    made.write_bytes(msgspec.json.encode(run))
    made.rename(directory / _RUN)
    return directory / f"{attempt}.log"


def _read(directory: Path) -> Run | None:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((directory / _RUN).read_bytes(), type=Run)
    return None


def _uid(name: str, node: str) -> str:
    return md5(f"host part {name} of {node}".encode()).hexdigest()


def static_pod(part: HostPart, node: str, now: str) -> Object:
    """Returns the static pod as a kubelet makes it from a manifest file."""
    uid = _uid(part.name, node)
    annotations = {HASH_ANNOTATION: uid, "kubernetes.io/config.source": "host", "kubernetes.io/config.seen": now}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{part.name}-{node}",
            "namespace": NAMESPACE,
            "uid": uid,
            "labels": {"component": part.name, "tier": "control-plane"},
            "annotations": annotations,
            "creationTimestamp": now,
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "containers": [{"name": part.name, "image": _IMAGE, "command": list(part.command)}],
        },
    }


class HostPod:
    """A host part as a pod: the source of its logs and status."""

    def __init__(self, part: HostPart, root: Path, node: str, address: str, now: str) -> None:
        self.pod = static_pod(part, node, now)
        self.state = PodState(address, pod_ip=address, start_time=now, sandbox=True, initialized=True)
        self.records = records_of(self.pod)
        (self._record,) = self.records.containers
        self._directory = log_directory(root, part.name, node)

    def look(self) -> bool:
        """Looks at the process. Returns True if its state has changed."""
        run, record = _read(self._directory), self._record
        if run is None:
            return False
        alive = started_at(run.pid) == run.started
        if (record.attempt, record.running) == (run.attempt, alive):
            return False
        if record.attempt != run.attempt:
            began = ContainerState(str(run.pid), uid_of(self.pod), record.name, run.attempt, run.started_at)
            record.began(began)
        record.ready = record.started = alive
        if not alive and record.state is not None:
            record.ended(replace(record.state, finished_at=time.time(), exit_code=_UNKNOWN_EXIT), "")
            self.state.waiting.add(record.name)
        else:
            self.state.waiting.discard(record.name)
        return True


class HostParts:
    """Reports host parts as pods; `mirror` returns the mirror pod of a static pod."""

    def __init__(
        self,
        client: ApiClient,
        parts: Sequence[HostPart],
        root: Path,
        node: str,
        address: str,
        mirror: Callable[[Object], Object | None],
        time: TimeOfDay,
    ) -> None:
        self._time = time
        now = timestamp(time.now())
        self._pods = {
            key_of(host_pod.pod): host_pod for host_pod in (HostPod(part, root, node, address, now) for part in parts)
        }
        self._writers = {key: self._writer(client, pod, mirror) for key, pod in self._pods.items()}

    def _writer(self, client: ApiClient, pod: HostPod, mirror: Callable[[Object], Object | None]) -> PodStatusWriter:
        def said() -> Object:
            now = timestamp(self._time.now())
            return status(mirror(pod.pod) or pod.pod, pod.state, pod.records, now=now, devices={})

        return PodStatusWriter(client, lambda: mirror(pod.pod), said)

    def static_pods(self) -> dict[Key, Object]:
        return {key: each.pod for key, each in self._pods.items()}

    def find(self, namespace: str, name: str) -> HostPod | None:
        return self._pods.get((namespace, name))

    def changed(self, key: Key) -> None:
        """Called when the mirror pod with this key has changed."""
        if (writer := self._writers.get(key)) is not None:
            writer.changed()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for writer in self._writers.values():
                group.create_task(writer.run())
            while self._pods:
                for key, pod in self._pods.items():
                    if pod.look():
                        self._writers[key].changed()
                await asyncio.sleep(_LOOK_SECONDS)
