"""The validating part of dynamic admission: policies are asked about an object as it would be stored."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus

import msgspec

from dray.server.admission.attributes import Attributes
from dray.server.admission.dynamic.matching import Target
from dray.server.admission.dynamic.metrics import AdmissionMetrics
from dray.server.admission.dynamic.policies import Violation
from dray.server.admission.dynamic.registry import NOBODY, Concerned
from dray.server.admission.dynamic.request import DELETE, AdmissionRequest
from dray.server.admission.dynamic.webhooks import Webhook
from dray.server.status import ApiError
from dray.server.worker import AT_ONCE

_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {
    "Unauthorized": HTTPStatus.UNAUTHORIZED,
    "Forbidden": HTTPStatus.FORBIDDEN,
    "RequestEntityTooLarge": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
}
# How often a loop visits a part of the object.
_VISITS = 8


async def validate(attributes: Attributes) -> bool:
    """Asks all matching policies and webhooks; raises their refusal.

    Returns True if any was asked: time has passed, and earlier checks must be repeated.
    """
    dynamic, resource = attributes.context.dynamic, attributes.resource
    if dynamic is None:
        return False
    concerned = dynamic.concerned(resource, attributes.subresource, attributes.operation)
    if concerned is NOBODY:
        return False
    place = (resource.group, resource.version, resource.plural, attributes.subresource, attributes.operation)
    request = AdmissionRequest(attributes, Target(*place, resource.namespaced))
    await _ask_policies(concerned, request, dynamic.metrics)
    # A deletion has nothing to mutate; mutating webhooks may still refuse it.
    mutating = concerned.mutators if attributes.operation == DELETE else ()
    asked = [(each, version) for each, version in (*mutating, *concerned.webhooks) if isinstance(each, Webhook)]
    for _, version in asked:
        await request.prepare(version)
    chosen = [(each, version) for each, version in asked if each.concerns(request, version)]
    calls = [each.ask(request, version, request.context.webhooks, dynamic.metrics) for each, version in chosen]
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
    return True


async def _ask_policies(concerned: Concerned, request: AdmissionRequest, metrics: AdmissionMetrics) -> None:
    attributes, found = request.attributes, list[Violation]()
    for policy, version in concerned.policies:
        await request.prepare(version)
        plan = await policy.plan(request, version)
        if plan:
            worker = request.context.worker
            new = await worker.run(effort(policy.loops, request), policy.violations, plan, attributes.annotations)
            found += new
            for planned in plan:
                mine = [violation for violation in new if violation.binding is planned.binding]
                for action in (mine and planned.binding.actions) or ("Allow",):
                    metrics.checked(policy.name, planned.binding.name, action.lower())
    for violation in found:
        if "Warn" in violation.binding.actions:
            named = f"'{violation.policy}' with binding '{violation.binding.name}'"
            attributes.warnings.append(f"Validation failed for ValidatingAdmissionPolicy {named}: {violation.message}")
    audited = [violation for violation in found if "Audit" in violation.binding.actions]
    if audited:
        attributes.annotations[_FAILURE] = json.dumps([_audited(violation) for violation in audited])
    denied = next((violation for violation in found if "Deny" in violation.binding.actions), None)
    if denied is not None:
        raise _refusal(attributes, denied)


def effort(loops: int, request: AdmissionRequest) -> int:
    """Estimates the work of expressions with nested loops, as a number of bytes to process."""
    if loops != 1:
        return AT_ONCE + 1 if loops else 0
    return _VISITS * len(msgspec.json.encode(request.object or request.old))


def _audited(violation: Violation) -> dict[str, object]:
    return {
        "message": violation.message,
        "policy": violation.policy,
        "binding": violation.binding.name,
        "expressionIndex": violation.index,
        "validationActions": violation.binding.actions,
    }


def _refusal(attributes: Attributes, denied: Violation) -> ApiError:
    named = f"'{denied.policy}' with binding '{denied.binding.name}'"
    text = f"ValidatingAdmissionPolicy {named} denied request: {denied.message}"
    error = attributes.forbid(text)
    error.reason = denied.reason or "Invalid"
    error.code = _CODES.get(error.reason, HTTPStatus.UNPROCESSABLE_ENTITY).value
    error.details = {**error.details, "causes": [{"message": text}]}
    return error
