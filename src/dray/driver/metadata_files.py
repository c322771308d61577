"""Device metadata files: what a container can read about its devices without access to the API.

For each request of a claim there is a file in the driver's directory, and a CDI device that mounts it read-only into
the containers. A file holds one JSON document for each version, the newest first. A failure is logged: the claim is
prepared all the same. A running container keeps the file it was started with.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dray.api import names
from dray.api.objects import Object, annotations_of
from dray.api.resource_claims import POD_CLAIM_ANNOTATION
from dray.driver.cdi.directory import CdiDirectory
from dray.driver.cdi.edits import ContainerEdits, Mount
from dray.driver.cdi.names import check_kind, qualified
from dray.driver.cdi.spec import Spec, SpecDevice
from dray.driver.claims import AllocatedDevice, Claim, ClaimReference
from dray.driver.devices import attribute_document
from dray.driver.errors import ClaimFailed, DriverError
from dray.driver.files import replace_file
from dray.driver.injection import AnsweredDevice
from dray.driver.prepared import DeviceMetadata, Prepared
from dray.process.beneath import read_regular, remove_tree

VERSIONS: Final = ("v1beta1", "v1alpha1")
"""The newest first."""
_IN_CONTAINER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_LARGEST: Final = 16 << 20
_logger = logging.getLogger(__name__)


class MetadataFiles:
    """`host_directory` is the driver's directory as the container runtime sees it."""

    def __init__(
        self, driver: str, directory: Path, host_directory: Path, cdi: CdiDirectory, versions: Sequence[str]
    ) -> None:
        unknown = set(versions) - set(VERSIONS)
        if unknown:
            raise DriverError(f"metadata versions {', '.join(sorted(unknown))}: known are {', '.join(VERSIONS)}")
        self._kind = f"{driver}/metadata"
        check_kind(self._kind)
        self._driver = driver
        self._directory = directory / "dra-device-metadata"
        self._host_directory = host_directory / "dra-device-metadata"
        self._cdi = cdi
        self._versions = [version for version in VERSIONS if version in versions or version == VERSIONS[0]]

    def write(self, claim: Claim, prepared: Prepared, answers: Sequence[AnsweredDevice]) -> None:
        """Adds the CDI id of each request's file to the first device of the request."""
        given = {device.device: device.metadata for device in prepared.devices if device.metadata is not None}
        requests: dict[str, list[AnsweredDevice]] = {}
        for answer in answers:
            if answer.device in given:
                requests.setdefault(answer.device.base_request, []).append(answer)
        for request, answered in requests.items():
            devices = {answer.device: given[answer.device] for answer in answered}
            try:
                answered[0].cdi_ids.append(self._write_request(claim, request, devices))
            except (OSError, DriverError) as error:
                _logger.error("metadata of claim %s, request %s: %s", claim.reference, request, error)

    def update(self, reference: ClaimReference, changes: Mapping[AllocatedDevice, DeviceMetadata]) -> None:
        """Changes what the files of a prepared claim say about these devices."""
        requests: dict[str, dict[tuple[str, str, str], Object]] = {}
        for device, metadata in changes.items():
            entries = requests.setdefault(device.base_request, {})
            entries[device.request, device.pool, device.device] = self._entry(device, metadata)
        for request, entries in requests.items():
            path = self._claim_directory(reference) / request / "metadata.json"
            body = _read(path)
            if body is None or body["metadata"]["uid"] != reference.uid:
                raise ClaimFailed(f"claim {reference} has no metadata for request {request}: is it prepared?")
            generation = body["metadata"].pop("generation")
            for entry in body["requests"]:
                keys = [(entry["name"], device["pool"], device["name"]) for device in entry["devices"]]
                entry["devices"] = [entries.get(*pair) for pair in zip(keys, entry["devices"], strict=True)]
            replace_file(path, _encode(self._versions, body, generation + 1), mode=0o644)

    def remove(self, reference: ClaimReference) -> None:
        remove_tree(self._claim_directory(reference))
        self._cdi.remove_prefixed(f"{self._driver}_metadata_{reference.uid}_")

    def _write_request(self, claim: Claim, request: str, devices: dict[AllocatedDevice, DeviceMetadata]) -> str:
        place = Path(self._claim_directory(claim.reference).name, request, "metadata.json")
        path = self._directory / place
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        body = self._body(claim, devices)
        generation = _generation(path, claim.uid, body)
        replace_file(path, _encode(self._versions, body, generation), mode=0o644)
        name = f"{claim.uid}_{request}"
        mount = Mount(str(self._host_directory / place), self._in_container(claim, request), ("ro", "bind"))
        spec = Spec(self._kind, (SpecDevice(name, ContainerEdits(mounts=(mount,))),))
        self._cdi.write(f"{self._driver}_metadata_{name}", spec)
        return qualified(self._kind, name)

    def _body(self, claim: Claim, devices: dict[AllocatedDevice, DeviceMetadata]) -> Object:
        requests: dict[str, list[Object]] = {}
        for device, metadata in devices.items():
            requests.setdefault(device.request, []).append(self._entry(device, metadata))
        reference, pod_claim = claim.reference, _pod_claim(claim)
        return {
            "metadata": {"name": reference.name, "namespace": reference.namespace, "uid": reference.uid},
            **({"podClaimName": pod_claim} if pod_claim else {}),
            "requests": [{"name": name, "devices": entries} for name, entries in requests.items()],
        }

    def _entry(self, device: AllocatedDevice, metadata: DeviceMetadata) -> Object:
        entry: Object = {"driver": self._driver, "pool": device.pool, "name": device.device}
        if metadata.attributes:
            entry["attributes"] = {name: attribute_document(each) for name, each in metadata.attributes.items()}
        if metadata.network is not None:
            entry["networkData"] = metadata.network.document()
        return entry

    def _in_container(self, claim: Claim, request: str) -> str:
        pod_claim = _pod_claim(claim)
        place = f"resourceclaimtemplates/{pod_claim}" if pod_claim else f"resourceclaims/{claim.reference.name}"
        return f"{_IN_CONTAINER}/{place}/{request}/{self._driver}-metadata.json"

    def _claim_directory(self, reference: ClaimReference) -> Path:
        return self._directory / f"{reference.namespace}_{reference.name}"


def _pod_claim(claim: Claim) -> str:
    """The name of the claim in its pod; empty for one that is not made from a template. Anybody can write the
    annotation: what cannot be such a name must not become part of a path."""
    name = str(annotations_of(claim.document).get(POD_CLAIM_ANNOTATION) or "")
    return name if names.is_label(name) else ""


def _encode(versions: Sequence[str], body: Object, generation: int) -> bytes:
    metadata = {**body["metadata"], "generation": generation}
    documents = (
        {"apiVersion": f"metadata.resource.k8s.io/{version}", "kind": "DeviceMetadata", **body, "metadata": metadata}
        for version in versions
    )
    return b"".join(msgspec.json.encode(document) + b"\n" for document in documents)


def _generation(path: Path, uid: str, body: Object) -> int:
    """One more than that of the file there; the same if nothing changes."""
    written = _read(path)
    if written is None or written["metadata"]["uid"] != uid:
        return 1
    generation = int(written["metadata"].pop("generation"))
    return generation if written == body else generation + 1


def _read(path: Path) -> Object | None:
    """The newest document of a file, without version and kind; None where there is none that could be ours."""
    try:
        document = msgspec.json.decode(read_regular(path, _LARGEST).partition(b"\n")[0], type=Object)
        if not document["metadata"]["uid"] or not isinstance(document["metadata"]["generation"], int):
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
