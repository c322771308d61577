"""PodSecurity: pods are held to the level that the labels of their namespace enforce.

Pods that violate it are refused. Workloads that make pods are accepted; their users are warned, and the audit log is
told. A change of a namespace's labels warns of pods that are there and would be refused now. Nothing is exempt. A
namespace without labels costs a search in its stored bytes, less than a microsecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dray.api.objects import Object, annotations_of, controller_uid, labels_of, mapping, mappings, spec_of
from dray.api.pod_security.checks import violations
from dray.api.pod_security.policy import NO_POLICY, PREFIX, PRIVILEGED, Policy, Standard, read_policy
from dray.server import documents, status
from dray.server.admission.attributes import Attributes
from dray.server.context import Context
from dray.server.resources import key_prefix

NAME: Final = "PodSecurity"
WORKLOADS: Final = (
    "ReplicationController PodTemplate ReplicaSet.apps Deployment.apps StatefulSet.apps DaemonSet.apps Job.batch "
    "CronJob.batch"
)
_PODS: Final = key_prefix("", "pods")
_NAMESPACES: Final = key_prefix("", "namespaces")
_PREFIX: Final = PREFIX.encode()
# Subresources that do not change how a pod runs.
_OTHER_PARTS: Final = frozenset({"binding", "eviction", "status"})
_MOST_PODS: Final = 3000
_MOST_SECONDS: Final = 1.0


def check_pod(attributes: Attributes) -> None:
    if attributes.subresource in _OTHER_PARTS or NAME in attributes.context.disabled_plugins:
        return
    found = _policy_of(attributes.context, attributes.namespace)
    if found.is_privileged:
        attributes.annotations[f"{PREFIX}enforce-policy"] = str(found.enforce)
    elif attributes.old is None or _changes_images(attributes.obj, attributes.old):
        _evaluate(attributes, found, annotations_of(attributes.obj), spec_of(attributes.obj), enforce=True)


def check_workload(attributes: Attributes) -> None:
    """Warns only: pods that violate the level are refused when they are created."""
    if attributes.subresource or NAME in attributes.context.disabled_plugins:
        return
    found = _policy_of(attributes.context, attributes.namespace)
    if found.warn.level == found.audit.level == PRIVILEGED and not found.problems:
        return
    template = _template_of(attributes.resource.kind, attributes.obj)
    if template:
        _evaluate(attributes, found, annotations_of(template), spec_of(template), enforce=False)


def check_namespace(attributes: Attributes) -> None:
    """Refuses invalid labels, unless the stored labels were invalid already."""
    if attributes.subresource or NAME in attributes.context.disabled_plugins:
        return
    problems = read_policy(labels_of(attributes.obj)).problems
    if problems and (attributes.old is None or problems != read_policy(labels_of(attributes.old)).problems):
        raise status.invalid("Namespace", "", attributes.name, problems)


async def warn_of_pods(attributes: Attributes) -> None:
    """Warns of existing pods that the new labels would refuse."""
    if attributes.resource.kind != "Namespace" or attributes.resource.group or attributes.old is None:
        return
    if attributes.subresource or NAME in attributes.context.disabled_plugins:
        return
    new, old = (read_policy(labels_of(namespace)).enforce for namespace in (attributes.obj, attributes.old))
    relaxed = new.minor == old.minor and new.strictness <= old.strictness
    if new.level == PRIVILEGED or relaxed:
        return
    records = attributes.context.store.list(f"{_PODS}{attributes.name}/").records
    values = [record.value for record in records]
    size = sum(map(len, values))
    attributes.warnings += await attributes.context.worker.run(size, _existing, attributes.name, new, values)


def _policy_of(context: Context, namespace: str) -> Policy:
    record = context.store.get(_NAMESPACES + namespace)
    if record is None or _PREFIX not in record.value:
        return NO_POLICY
    return read_policy(documents.metadata(record.value).labels or {})


def _template_of(kind: str, workload: Object) -> Object:
    holder = workload if kind == "PodTemplate" else spec_of(workload)
    if kind == "CronJob":
        holder = spec_of(mapping(holder.get("jobTemplate")))
    return mapping(holder.get("template"))


def _changes_images(new: Object, old: Object) -> bool:
    """Returns True if an update changes images or adds containers; other changes cannot violate the level."""
    return any(
        _images(new, member) - _images(old, member) or _count(new, member) != _count(old, member)
        for member in ("containers", "initContainers", "ephemeralContainers")
    )


def _images(pod: Object, member: str) -> set[tuple[str, str]]:
    return {
        (str(container.get("name")), str(container.get("image"))) for container in mappings(spec_of(pod).get(member))
    }


def _count(pod: Object, member: str) -> int:
    return len(mappings(spec_of(pod).get(member)))


def _evaluate(
    attributes: Attributes, found: Policy, annotations: Mapping[str, str], spec: Object, *, enforce: bool
) -> None:
    told = attributes.annotations
    if found.problems:
        told[f"{PREFIX}error"] = f"Failed to parse policy: {', '.join(map(str, found.problems))}"
    texts: dict[Standard, str] = {}

    def violated(standard: Standard) -> str:
        if standard not in texts:
            texts[standard] = ", ".join(map(str, violations(standard, annotations, spec)))
        return texts[standard]

    if enforce:
        told[f"{PREFIX}enforce-policy"] = str(found.enforce)
    if text := violated(found.audit):
        told[f"{PREFIX}audit-violations"] = f'would violate PodSecurity "{found.audit}": {text}'
    if enforce and (text := violated(found.enforce)):
        raise attributes.forbid(f'violates PodSecurity "{found.enforce}": {text}')
    if text := violated(found.warn):
        attributes.warnings.append(f'would violate PodSecurity "{found.warn}": {text}')


def _existing(
    namespace: str, standard: Standard, values: Sequence[bytes], clock: Callable[[], float] = time.monotonic
) -> list[str]:
    """Returns warnings about stored pods, first of one pod per controller, because its other pods are alike."""
    deadline, checked = clock() + _MOST_SECONDS, 0
    names: dict[str, list[str]] = {}
    for pod in _one_of_each_first(values)[:_MOST_PODS]:
        found = violations(standard, annotations_of(pod), spec_of(pod))
        if found:
            names.setdefault(", ".join(violation.reason for violation in found), []).append(pod["metadata"]["name"])
        checked += 1
        if clock() > deadline:
            break
    warnings = []
    if checked < len(values):
        text = f"new PodSecurity enforce level only checked against the first {checked} of {len(values)} existing pods"
        warnings.append(text)
    if names:
        text = f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"'
        warnings.append(text)
    return warnings + sorted(f"{_some(pods)}: {reason}" for reason, pods in names.items())


def _one_of_each_first(values: Sequence[bytes]) -> list[Object]:
    first: list[Object] = []
    others: list[Object] = []
    controllers: set[str] = set()
    for value in values:
        pod = documents.decode(value)
        controller = controller_uid(pod)
        (others if controller and controller in controllers else first).append(pod)
        controllers.add(controller)
    return first + others


def _some(pods: Sequence[str]) -> str:
    others = len(pods) - 1
    suffix = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
    return f"{min(pods)}{suffix}"
