"""Rows of nodes, namespaces, events and the other kinds around claims."""

from __future__ import annotations

from typing import Any

from dray.api.catalogue import CERTIFICATES_GROUP
from dray.api.certificate_requests import APPROVED, DENIED, FAILED
from dray.api.label_selectors import text_of
from dray.api.objects import Object, conditions_of, is_true, labels_of, mapping, status_of
from dray.api.tables.column import AGE, NAME, NONE, Column, age, human, seconds_between

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _node_status(node: Object, now: str) -> str:
    conditions = {c["type"]: c["status"] for c in conditions_of(node)}
    state = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return state + (",SchedulingDisabled" if node["spec"].get("unschedulable") else "")


def _node_roles(node: Object, now: str) -> str:
    labels = labels_of(node)
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role" and value}
    return ",".join(sorted(roles)) or NONE


def _node_info(member: str, missing: str = "<unknown>") -> Any:
    def cell(node: Object, now: str) -> str:
        return str(mapping(status_of(node).get("nodeInfo")).get(member) or missing)

    return cell


def _node_address(kind: str) -> Any:
    def cell(node: Object, now: str) -> str:
        addresses = status_of(node).get("addresses") or []
        return next((str(a["address"]) for a in addresses if a["type"] == kind), NONE)

    return cell


def _count(*members: str) -> Any:
    return lambda obj, now: sum(len(mapping(obj.get(member))) for member in members)


def _last_seen(event: Object, now: str) -> str:
    series = mapping(event.get("series"))
    return age(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime"), now)


def _first_seen(event: Object, now: str) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_object(event: Object, now: str) -> str:
    about = event["involvedObject"]
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(event: Object, now: str) -> str:
    source = mapping(event.get("source"))
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def _job_status(job: Object, now: str) -> str:
    conditions = {c["type"] for c in conditions_of(job) if c["status"] == "True"}
    for name, shown in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if name in conditions:
            return shown
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return "FailureTarget" if "FailureTarget" in conditions else "Running"


def _job_completions(job: Object, now: str) -> str:
    succeeded = status_of(job).get("succeeded", 0)
    completions, parallelism = job["spec"].get("completions"), job["spec"].get("parallelism", 0)
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: str) -> str:
    status = status_of(job)
    if not status.get("startTime"):
        return ""
    return human(seconds_between(status["startTime"], status.get("completionTime") or now))


def template_containers(member: str) -> Any:
    def cell(job: Object, now: str) -> str:
        return ",".join(c.get(member, "") for c in job["spec"]["template"]["spec"]["containers"] or [])

    return cell


def selected_labels(job: Object, now: str) -> str:
    return text_of(mapping(job["spec"].get("selector"))) or NONE


def _requested_duration(obj: Object, now: str) -> str:
    seconds = obj["spec"].get("expirationSeconds")
    return NONE if seconds is None else human(seconds)


def _request_state(obj: Object, now: str) -> str:
    state = next((condition for condition in (DENIED, APPROVED) if is_true(obj, condition)), "Pending")
    further = [FAILED] if is_true(obj, FAILED) else []
    return ",".join([state, *further, *(["Issued"] if obj["status"].get("certificate") else [])])


def _user_annotations(request: Object, now: str) -> str:
    given = mapping(request["spec"].get("unverifiedUserAnnotations"))
    return ",".join(f"{key}={value}" for key, value in sorted(given.items())) or NONE


def _migrated(migration: Object, now: str) -> str:
    resource = migration["spec"]["resource"]
    return ".".join(filter(None, (resource["resource"], resource["group"])))


def _migration_state(migration: Object, now: str) -> str:
    found = [condition for condition in ("Running", "Failed", "Succeeded") if is_true(migration, condition)]
    return found[-1] if found else "Unknown"


def _component_state(component: Object, now: str) -> str:
    return "Healthy" if component["conditions"][0]["status"] == "True" else "Unhealthy"


COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "Node"): (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _node_info("kubeletVersion", "")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _node_info("osImage"), wide=True),
        Column("Kernel-Version", _node_info("kernelVersion"), wide=True),
        Column("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
    ),
    ("", "Namespace"): (NAME, Column("Status", lambda obj, now: status_of(obj).get("phase", "")), AGE),
    ("", "Event"): (
        Column("Last Seen", _last_seen),
        Column("Type", lambda obj, now: obj.get("type", "")),
        Column("Reason", lambda obj, now: obj.get("reason", "")),
        Column("Object", _event_object),
        Column("Subobject", lambda obj, now: obj["involvedObject"].get("fieldPath", ""), wide=True),
        Column("Source", _event_source, wide=True),
        Column("Message", lambda obj, now: obj.get("message", "").strip()),
        Column("First Seen", _first_seen, wide=True),
        Column("Count", lambda obj, now: obj.get("count") or 1, type="integer", wide=True),
        Column("Name", NAME.cell, wide=True),
    ),
    ("", "ServiceAccount"): (NAME, AGE),
    ("", "ConfigMap"): (NAME, Column("Data", _count("data", "binaryData"), type="integer"), AGE),
    ("", "Secret"): (
        NAME,
        Column("Type", lambda obj, now: obj.get("type", "Opaque")),
        Column("Data", _count("data"), type="integer"),
        AGE,
    ),
    ("coordination.k8s.io", "Lease"): (
        NAME,
        Column("Holder", lambda obj, now: obj["spec"].get("holderIdentity") or ""),
        AGE,
    ),
    ("coordination.k8s.io", "LeaseCandidate"): (
        NAME,
        Column("LeaseName", lambda obj, now: obj["spec"]["leaseName"]),
        Column("BinaryVersion", lambda obj, now: obj["spec"]["binaryVersion"]),
        Column("EmulationVersion", lambda obj, now: obj["spec"].get("emulationVersion") or ""),
        AGE,
    ),
    ("batch", "Job"): (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        Column("Containers", template_containers("name"), wide=True),
        Column("Images", template_containers("image"), wide=True),
        Column("Selector", selected_labels, wide=True),
    ),
    (CERTIFICATES_GROUP, "CertificateSigningRequest"): (
        NAME,
        AGE,
        Column("SignerName", lambda obj, now: obj["spec"].get("signerName", "")),
        Column("Requestor", lambda obj, now: obj["spec"].get("username", "")),
        Column("RequestedDuration", _requested_duration),
        Column("Condition", _request_state),
    ),
    (CERTIFICATES_GROUP, "ClusterTrustBundle"): (
        NAME,
        Column("SignerName", lambda obj, now: obj["spec"].get("signerName") or NONE),
    ),
    (CERTIFICATES_GROUP, "PodCertificateRequest"): (
        NAME,
        Column("PodName", lambda obj, now: obj["spec"]["podName"]),
        Column("ServiceAccountName", lambda obj, now: obj["spec"]["serviceAccountName"]),
        Column("NodeName", lambda obj, now: obj["spec"]["nodeName"]),
        Column("SignerName", lambda obj, now: obj["spec"]["signerName"]),
        Column("State", lambda obj, now: next((condition["type"] for condition in conditions_of(obj)), "Pending")),
        Column("UnverifiedUserAnnotations", _user_annotations, wide=True),
    ),
    ("storagemigration.k8s.io", "StorageVersionMigration"): (
        NAME,
        Column("Resource", _migrated),
        Column("Status", _migration_state),
    ),
    ("", "ComponentStatus"): (
        NAME,
        Column("Status", _component_state),
        Column("Message", lambda obj, now: obj["conditions"][0].get("message") or ""),
        Column("Error", lambda obj, now: obj["conditions"][0].get("error") or ""),
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        NAME,
        Column("Created At", lambda obj, now: obj["metadata"].get("creationTimestamp", ""), format="date-time"),
    ),
}
