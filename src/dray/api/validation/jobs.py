"""Job: counts, completion modes, the pod template, and what may change while it exists.

The selector and the labels it asks for are made after validation, when the job has its name and uid
(defaulting.py); `validate_generated` looks at those.
"""

from __future__ import annotations

import copy
import re

from dray.api import errors, label_selectors, names
from dray.api.defaulting import NAME_LABELS, UID_LABELS
from dray.api.objects import Object, labels_of, mapping, take_members
from dray.api.rules import Rules
from dray.api.validation import fields, job_policies, pods
from dray.api.validation import metadata as selectors
from dray.api.validation.fields import Errors

MAX_INDEXED = 100_000
# Limits of a job with more indexes than that and a limit of failures for each.
MAX_OF_MANY = 10_000
MAX_MANAGED_BY = 63
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ["Indexed", "NonIndexed"]
_RESTART_POLICIES = ["Never", "OnFailure"]
_REPLACEMENTS = ["Failed", "TerminatingOrFailed"]
_FIXED = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_DOMAIN_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)
_PATH = "spec.scheduling"
_VARIANT = (
    "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated"
)


def validate(job: Object, rules: Rules) -> Errors:
    spec = job["spec"]
    yield from validate_spec(spec)
    if spec.get("manualSelector") and spec.get("selector") is None:
        yield errors.required("spec.selector")
    yield from _selection(spec, generated=not spec.get("manualSelector"))
    name, completions = job["metadata"].get("name", ""), spec.get("completions") or 0
    if name and _indexed(spec) and completions > 0 and not names.is_label(f"{name}-{completions - 1}"):
        detail = f"will not able to create pod with invalid DNS label: {name}-{completions - 1}"
        yield errors.invalid("metadata.name", name, detail)


def validate_generated(job: Object) -> Errors:
    """The labels of a job whose selector was made for it are those that were made, whatever the client wrote."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    labels = labels_of(spec["template"])
    expected = dict.fromkeys(UID_LABELS, metadata["uid"]) | dict.fromkeys(NAME_LABELS, metadata["name"])
    for key, value in expected.items():
        if labels.get(key) != value:
            yield errors.invalid(f"spec.template.metadata.labels[{key}]", labels, f"must be '{value}'")
    if not label_selectors.from_object(spec["selector"])(expected):
        yield errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")
    yield from _selection(spec)


def _selection(spec: Object, *, generated: bool = False) -> Errors:
    """The selector matches the pods that will be made; one that is still to be generated is not looked for."""
    selector = spec.get("selector")
    if selector is None:
        return
    yield from selectors.label_selector(selector, "spec.selector")
    labels = labels_of(spec["template"])
    if not generated and not label_selectors.from_object(selector)(labels):
        yield errors.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _indexed(spec: Object) -> bool:
    return bool(spec.get("completionMode") == "Indexed")


def validate_spec(spec: Object) -> Errors:
    yield from fields.not_negative(spec, _COUNTS, "spec")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield errors.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("scheduling") is not None:
        yield from validate_scheduling(spec["scheduling"], spec.get("parallelism", 1))
    if spec.get("managedBy") is not None:
        yield from _managed_by(spec["managedBy"], "spec.managedBy")
    yield from fields.enum(spec.get("completionMode"), _MODES, "spec.completionMode")
    if _indexed(spec):
        yield from _indexes(spec)
    else:
        for member in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if spec.get(member) is not None:
                yield errors.invalid(f"spec.{member}", spec[member], "requires indexed completion mode")
    yield from job_policies.validate_pod_failure(spec, "spec.podFailurePolicy")
    if _indexed(spec):
        yield from job_policies.validate_success(spec, "spec.successPolicy")
    choices = _REPLACEMENTS if spec.get("podFailurePolicy") is None else ["Failed"]
    yield from fields.enum(spec.get("podReplacementPolicy"), choices, "spec.podReplacementPolicy")
    yield from pods.validate_template(spec["template"], "spec.template")
    yield from _restart_policy(spec, "spec.template.spec.restartPolicy")


def _managed_by(name: str, path: str) -> Errors:
    domain, slash, rest = name.partition("/")
    if not slash or not names.is_subdomain(domain) or not _DOMAIN_PATH.fullmatch(rest):
        yield errors.invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    if names.size(name) > MAX_MANAGED_BY:
        yield errors.too_long(path, MAX_MANAGED_BY)


def _indexes(spec: Object) -> Errors:
    completions, parallelism, failed = (spec.get(m) for m in ("completions", "parallelism", "maxFailedIndexes"))
    if completions is None:
        yield errors.required("spec.completions", "when completion mode is Indexed")
    if (parallelism or 0) > MAX_INDEXED:
        detail = f"must be less than or equal to {MAX_INDEXED} when completion mode is Indexed"
        yield errors.invalid("spec.parallelism", parallelism, detail)
    if failed is not None and completions is not None and failed > completions:
        yield errors.invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
    if (failed or 0) > MAX_INDEXED:
        yield errors.invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {MAX_INDEXED}")
    if (completions or 0) > MAX_INDEXED and spec.get("backoffLimitPerIndex") is not None:
        if failed is None:
            yield errors.required("spec.maxFailedIndexes", f"must be specified when completions is above {MAX_INDEXED}")
        for member, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if (value or 0) > MAX_OF_MANY:
                detail = f"must be less than or equal to {MAX_OF_MANY} when completions are above {MAX_INDEXED}"
                yield errors.invalid(f"spec.{member}", value, f"{detail} and used with backoff limit per index")


def _restart_policy(spec: Object, path: str) -> Errors:
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy in (None, "", "Always"):
        yield errors.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in _RESTART_POLICIES:
        yield errors.not_supported(path, policy, _RESTART_POLICIES)
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield errors.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def validate_update(job: Object, old: Object, rules: Rules) -> Errors:
    spec, before = job["spec"], old["spec"]
    yield from validate_spec(spec)
    if spec.get("selector") is None:
        yield errors.required("spec.selector")
    yield from _selection(spec)
    yield from _completions(spec, before)
    for member in _FIXED:
        yield from fields.immutable(spec.get(member), before.get(member), f"spec.{member}")
    yield from validate_scheduling_update(spec.get("scheduling"), before.get("scheduling"))
    template = before["template"]
    if before.get("suspend") and not old["status"].get("active"):
        template = _directed(template, spec["template"])
    yield from fields.immutable(spec["template"], template, "spec.template")


def _completions(spec: Object, before: Object) -> Errors:
    """An indexed job grows and shrinks as a whole; any other has as many as it began with."""
    completions, earlier = spec.get("completions"), before.get("completions")
    if completions == earlier:
        return
    if not _indexed(spec) or completions is None or earlier is None:
        yield from fields.immutable(completions, earlier, "spec.completions")
    elif completions != spec.get("parallelism"):
        yield errors.invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def _directed(template: Object, new: Object) -> Object:
    """The template of a suspended job with what a queue may say about where and with what its pods run."""
    allowed = copy.deepcopy(template)
    take_members(allowed["metadata"], new["metadata"], ("labels", "annotations"))
    take_members(allowed["spec"], new["spec"], ("nodeSelector", "tolerations", "schedulingGates"))
    node_affinity = mapping(new["spec"].get("affinity")).get("nodeAffinity")
    others = {key: value for key, value in mapping(allowed["spec"].get("affinity")).items() if key != "nodeAffinity"}
    affinity = {**others, "nodeAffinity": node_affinity} if node_affinity is not None else others
    if affinity or "affinity" in new["spec"]:
        allowed["spec"]["affinity"] = affinity
    else:
        allowed["spec"].pop("affinity", None)
    for member in ("containers", "initContainers"):
        for container, given in zip(allowed["spec"].get(member) or (), new["spec"].get(member) or (), strict=False):
            take_members(container, given, ("resources",))
    return allowed


def validate_status(job: Object, old: Object, rules: Rules) -> Errors:
    status = job["status"]
    yield from fields.not_negative(status, ("active", "succeeded", "failed", "ready", "terminating"), "status")
    now, before = _true(status), _true(old["status"])
    if {"Complete", "Failed"} <= now:
        detail = "cannot set Complete=True and Failed=true conditions"
        yield errors.invalid("status.conditions", status.get("conditions"), detail)
    for kind in sorted({"Complete", "Failed"} & (before - now)):
        yield errors.invalid("status.conditions", status.get("conditions"), f"cannot disable {kind}=True condition")
    if status.get("completionTime") and "Complete" not in now:
        detail = "cannot set completionTime when there is no Complete=True condition"
        yield errors.invalid("status.completionTime", status["completionTime"], detail)


def _true(status: Object) -> set[str]:
    return {item["type"] for item in status.get("conditions") or [] if item["status"] == "True"}


def validate_scheduling(scheduling: Object, parallelism: int) -> Errors:
    """How the pods of a job are scheduled as a group."""
    policy = scheduling.get("schedulingPolicy")
    if policy is not None:
        yield from fields.union(policy, ("basic", "gang"), f"{_PATH}.schedulingPolicy")
        count = mapping(policy.get("gang")).get("minCount")
        at = f"{_PATH}.schedulingPolicy.gang.minCount"
        if count is not None and count <= 0:
            yield errors.invalid(at, count, "must be greater than or equal to 1")
        elif count is not None and count > parallelism:
            yield errors.invalid(at, count, f"must not be greater than parallelism ({parallelism})")
    if scheduling.get("disruptionMode") is not None:
        yield from fields.union(scheduling["disruptionMode"], ("single", "all"), f"{_PATH}.disruptionMode")


def validate_scheduling_update(scheduling: Object | None, before: Object | None) -> Errors:
    """Validates an update of `spec.scheduling`: only the size of a gang may change."""
    if scheduling is None or before is None:
        yield from fields.immutable(scheduling, before, _PATH, declarative=True)
        return
    for member in ("schedulingConstraints", "resourceClaims", "disruptionMode"):
        yield from fields.immutable(scheduling.get(member), before.get(member), f"{_PATH}.{member}", declarative=True)
    policy, old = scheduling.get("schedulingPolicy"), before.get("schedulingPolicy")
    if policy is None or old is None:
        yield from fields.immutable(policy, old, f"{_PATH}.schedulingPolicy", declarative=True)
    elif (policy.get("gang") is None) != (old.get("gang") is None):
        yield errors.invalid(f"{_PATH}.schedulingPolicy", None, _VARIANT)
