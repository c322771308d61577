"""Reads manifests as an API server would store them: checked, in version v1, with defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.answers.manifests.claim_specs import Spec, made_pod_spec, pod_spec
from dray.answers.manifests.reading import Manifest
from dray.answers.manifests.wanted import Workload, replicas
from dray.api import alpha2, intake
from dray.api.catalogue import RESOURCE_GROUP, find
from dray.api.errors import FieldError
from dray.api.gates import ALL_GATES
from dray.api.objects import Object, walk
from dray.api.rules import ADMIN_ACCESS_LABEL
from dray.cel import Expressions
from dray.yaml.text import ManifestError

_EPOCH: Final = "1970-01-01T00:00:00Z"
_WANTED: Final = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule")


class Namespaces:
    """The Namespaces among the manifests, and which of them permit admin access to devices."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._permitted: dict[str, bool] = {}
        for manifest in manifests:
            if (manifest.api_version, manifest.kind) == ("v1", "Namespace"):
                labelled = walk(manifest.document, "metadata", "labels").get(ADMIN_ACCESS_LABEL) == "true"
                self._permitted[manifest.name] = labelled or self._permitted.get(manifest.name, False)

    def permit_admin_access(self, namespace: str) -> bool:
        """Returns True if the namespace has the label for admin access, or is not among the manifests."""
        return self._permitted.get(namespace, True)


class Unusable(Exception):
    """An API server would reject some of the manifests; `problems` has one error for each problem."""

    def __init__(self, problems: Sequence[ManifestError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(slots=True)
class Stored:
    """The objects of manifests as a server stores them; workloads are kept apart."""

    objects: dict[str, list[Object]] = field(default_factory=dict)
    workloads: list[Workload] = field(default_factory=list)

    def of(self, kind: str) -> list[Object]:
        return self.objects.get(kind, [])


def read_objects(manifests: Sequence[Manifest]) -> Stored:
    """Returns the objects that matter to the allocation of devices. Raises Unusable."""
    stored, problems = Stored(), list[ManifestError]()
    namespaces = Namespaces(manifests)
    for manifest in manifests:
        spec = made_pod_spec(manifest.document)
        try:
            if spec is not None:
                stored.workloads.append(read_workload(manifest, spec))
            elif manifest.kind in _WANTED or (manifest.api_version, manifest.kind) == ("v1", "Node"):
                stored.objects.setdefault(manifest.kind, []).append(decoded(manifest, namespaces))
        except Unusable as unusable:
            problems += unusable.problems
    if problems:
        raise Unusable(problems)
    return stored


def decoded(manifest: Manifest, namespaces: Namespaces) -> Object:
    """Returns the object as a server stores it. Raises Unusable."""
    target = find(manifest.api_version, manifest.kind)
    if target is None:
        known = f"dray convert rewrites old versions of {RESOURCE_GROUP}"
        raise Unusable([_problem(manifest, "apiVersion", f"{manifest.api_version} is not served; {known}")])
    permitted = namespaces.permit_admin_access(manifest.namespace or "default")
    _raise_problems(
        manifest,
        intake.check(manifest.document, gates=ALL_GATES, expressions=Expressions(), admin_namespace=permitted),
    )
    decoded = intake.decode(manifest.document, target, now=_EPOCH, gates=ALL_GATES)
    assert not isinstance(decoded, intake.Refusal)
    decoded["metadata"].setdefault("name", decoded["metadata"].get("generateName", ""))
    if target.namespaced:
        decoded["metadata"]["namespace"] = decoded["metadata"].get("namespace") or "default"
    return decoded


def read_workload(manifest: Manifest, spec: Spec) -> Workload:
    """Returns the pod that the manifest is or makes, as a server stores it. Raises Unusable."""
    modern, _ = alpha2.without_source(spec.value)
    given = walk(manifest.document, *spec.path.split(".")[:-1], "metadata")
    metadata = {"name": "pod", **{name: given[name] for name in ("labels", "annotations") if given.get(name)}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": modern}
    _raise_problems(manifest, intake.check(pod, gates=ALL_GATES), spec.path)
    target = find("v1", "Pod")
    assert target is not None
    decoded = intake.decode(pod, target, now=_EPOCH, gates=ALL_GATES)
    assert not isinstance(decoded, intake.Refusal)
    namespace = manifest.namespace or "default"
    return Workload(manifest.kind, namespace, manifest.name or "", decoded, replicas(manifest.document))


def decoded_workload(manifest: Manifest) -> Object:
    """Returns a pod or workload as a server stores it; the spec of its pods has the defaults of pods. Raises Unusable.

    Volumes that are made from the volume claims of a StatefulSet are not in it.
    """
    made, given = made_pod_spec(manifest.document), pod_spec(manifest.document)
    assert made is not None
    assert given is not None
    pod = read_workload(manifest, made).pod
    volumes = [each for each in pod["spec"].get("volumes") or () if each.get("name") in _names(given)]
    spec = {name: value for name, value in {**pod["spec"], "volumes": volumes}.items() if name != "volumes" or value}
    document = _replaced(manifest.document, given.path.split("."), spec)
    elsewhere = [
        problem
        for problem in intake.check(document, gates=ALL_GATES)
        if not problem.field.startswith((f"{given.path}.", f"{given.path}["))
    ]
    _raise_problems(manifest, elsewhere)
    target = find(manifest.api_version, manifest.kind)
    assert target is not None
    stored = intake.decode(document, target, now=_EPOCH, gates=ALL_GATES)
    assert not isinstance(stored, intake.Refusal)
    return stored


def _names(pod: Spec) -> set[str]:
    return {str(each.value.get("name")) for each in pod.items("volumes")}


def _replaced(value: Object, path: Sequence[str], new: Object) -> Object:
    """Returns a copy with another value at the path."""
    if not path:
        return new
    return {**value, path[0]: _replaced(walk(value, path[0]), path[1:], new)}


def _raise_problems(manifest: Manifest, problems: Iterable[FieldError], at: str = "spec") -> None:
    """Raises Unusable if there are problems; `at` is the path of the pod spec in the manifest."""
    found = list(_located(manifest, problems, at))
    if found:
        raise Unusable(found)


def _located(manifest: Manifest, problems: Iterable[FieldError], at: str) -> Iterator[ManifestError]:
    for problem in problems:
        field = at + problem.field.removeprefix("spec") if problem.field.startswith("spec") else problem.field
        yield _problem(manifest, field, f"{field}: {problem.message}")


def _problem(manifest: Manifest, field: str, message: str) -> ManifestError:
    place = manifest.place.find(field)
    return ManifestError(f"{manifest.title}: {message}", source=manifest.source, line=place.line, column=place.column)
