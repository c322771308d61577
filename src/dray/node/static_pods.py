"""Static pods: pods from the files of a directory, which run without an API server.

Each file holds one pod, in YAML or JSON; names that begin with a dot are passed over. The name of the node is added to
that of the pod. Its uid is made from what the file says, so a file that changes is another pod, which starts when the
old one has ended. What is in the directory is looked at again and again; a file that cannot be used is told about in
the log, and again when it changes.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable, Mapping
from hashlib import md5
from pathlib import Path
from typing import Final

from dray.api import intake, names
from dray.api.catalogue import built_in
from dray.api.gates import DEFAULT_GATES
from dray.api.objects import Object, mapping, metadata_of, uid_of
from dray.api.pod_references import api_objects
from dray.api.pods import HASH_ANNOTATION
from dray.client.clock import TimeOfDay, timestamp
from dray.node.errors import NodeError
from dray.process.beneath import read_regular
from dray.yaml.documents import parse
from dray.yaml.text import ManifestError

_SOURCE: Final = "kubernetes.io/config.source"
_SEEN: Final = "kubernetes.io/config.seen"
_POD: Final = built_in("v1", "Pod")
_LARGEST: Final = 1 << 20
_UNREADABLE: Final = (0, 0, 0)
_logger = logging.getLogger(__name__)


class StaticPodError(NodeError):
    """Raised for a file without a pod that may run without an API server."""


class StaticPods:
    """Watches the directory; `changed` gets all its pods by uid whenever they change."""

    def __init__(
        self, directory: Path, node: str, changed: Callable[[Mapping[str, Object]], None], time: TimeOfDay
    ) -> None:
        self._directory = directory
        self._node = node
        self._changed = changed
        self._time = time
        self._files: dict[Path, tuple[tuple[int, int, int], Object | None]] = {}

    async def run(self, pause: float) -> None:
        while True:
            self.scan()
            await asyncio.sleep(pause)

    def scan(self) -> None:
        try:
            paths = sorted(entry for entry in self._directory.iterdir() if not entry.name.startswith("."))
        except OSError as error:
            # A directory that is missing for a moment does not end the pods.
            _logger.warning("static pods: %s: %s", self._directory, error.strerror)
            return
        before = {uid_of(pod) for _, pod in self._files.values() if pod is not None}
        self._files = {path: self._file(path) for path in paths}
        pods = {uid_of(pod): pod for _, pod in self._files.values() if pod is not None}
        if pods.keys() != before:
            self._changed(pods)

    def _file(self, path: Path) -> tuple[tuple[int, int, int], Object | None]:
        """Returns a mark that identifies the content of the file, and its pod; None if it has no valid pod."""
        known = self._files.get(path)
        try:
            found = path.stat()
            mark = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stat.S_ISDIR(found.st_mode):
                return mark, None
            if known is not None and known[0] == mark:
                return known
            return mark, static_pod(path, self._node, timestamp(self._time.now()))
        except OSError as error:
            # The file is read again at every look, and the failure is logged once.
            if known is None or known[0] != _UNREADABLE:
                _logger.error("static pods: %s: %s", path, error.strerror)
            return _UNREADABLE, None
        except StaticPodError as error:
            _logger.error("static pods: %s: %s", path, error)
        except Exception:
            _logger.exception("static pods: %s", path)
        return mark, None


def static_pod(path: Path, node: str, now: str) -> Object:
    """Reads the pod of a file for this node. Raises StaticPodError, and OSError if the file cannot be read."""
    content = read_regular(path, _LARGEST, links=True)
    try:
        documents = [document.value for document in parse(content) if document.value is not None]
    except ManifestError as error:
        raise StaticPodError(str(error)) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise StaticPodError(f"one pod is expected, and there are {len(documents)} documents")
    document: Object = documents[0]
    if (document.get("apiVersion"), document.get("kind")) != ("v1", "Pod"):
        raise StaticPodError(f"kind {document.get('kind')} of {document.get('apiVersion')} is not a v1 Pod")
    return _checked(_completed(document, node, md5(content + str(path).encode() + node.encode()).hexdigest(), now))


def _completed(document: Object, node: str, uid: str, now: str) -> Object:
    metadata = mapping(document.get("metadata"))
    annotations = {**mapping(metadata.get("annotations")), HASH_ANNOTATION: uid, _SOURCE: "file", _SEEN: now}
    spec = mapping(document.get("spec"))
    tolerations = spec.get("tolerations") or []
    if isinstance(tolerations, list):
        tolerations = [*tolerations, {"operator": "Exists", "effect": "NoExecute"}]
    return {
        **document,
        "metadata": {
            **metadata,
            "name": f"{metadata.get('name') or ''}-{node}",
            "namespace": metadata.get("namespace") or "default",
            "uid": uid,
            "annotations": annotations,
            "creationTimestamp": now,
        },
        "spec": {**spec, "nodeName": node, "tolerations": tolerations},
        "status": {},
    }


def _checked(pod: Object) -> Object:
    if problems := intake.check(pod):
        raise StaticPodError("; ".join(map(str, problems[:3])))
    # The namespace becomes a part of paths; an API server would check it.
    namespace = str(metadata_of(pod).get("namespace"))
    if not names.is_label(namespace):
        raise StaticPodError(f"metadata.namespace: {namespace[:100]!r} is not the name of a namespace")
    if mapping(pod["spec"]).get("ephemeralContainers"):
        raise StaticPodError("static pods may not have ephemeral containers")
    if referred := api_objects(pod):
        raise StaticPodError(f"static pods may not reference {referred}")
    decoded = intake.decode(pod, _POD, now=str(metadata_of(pod)["creationTimestamp"]), gates=DEFAULT_GATES)
    assert not isinstance(decoded, intake.Refusal)
    return decoded
