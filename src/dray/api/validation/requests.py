"""The devices a claim asks for: requests with their alternatives, constraints, configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import expressions, fields, taints
from dray.api.validation.fields import Errors

MAX_REQUESTS = 32
MAX_SUBREQUESTS = 8
MAX_CONSTRAINTS = 32
MAX_CONFIGURATIONS = 32
MAX_REFERENCES = 32
MAX_DERIVED = 32
NO_ADMIN_NAMESPACE = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)

_MODES = ["All", "ExactCount"]


@dataclass(slots=True)
class _Derived:
    """Derived attributes while a claim is checked: who covers which name, and what all expressions cost."""

    constraints: list[Object]
    cost: int = 0

    def covered(self, name: str, request: str, subrequest: str | None) -> bool:
        for constraint in self.constraints:
            if name in (constraint.get("matchAttribute"), constraint.get("distinctAttribute")):
                scope = constraint.get("requests") or []
                if not scope or request in scope or (subrequest and f"{request}/{subrequest}" in scope):
                    return True
        return False


def validate(devices: Object, path: str, rules: Rules) -> Errors:
    """`spec.devices` of a claim, `spec.spec.devices` of a template."""
    items = devices["requests"] or []
    constraints = devices.get("constraints") or []
    derived = _Derived(constraints)

    def check_request(request: Object, at: str) -> Errors:
        return _request(request, at, rules, derived)

    yield from fields.limited(items, MAX_REQUESTS, f"{path}.requests", check_request, key=fields.by("name"))
    if derived.cost > expressions.MAX_COST:
        yield errors.forbidden(
            path,
            f"too complex: all derived attributes cost {derived.cost} at worst, the limit is {expressions.MAX_COST}",
        )
    known = request_names(devices)

    def check_constraint(constraint: Object, at: str) -> Errors:
        return _constraint(constraint, at, known, rules)

    def check_configuration(configuration: Object, at: str) -> Errors:
        yield from references(configuration.get("requests") or [], f"{at}.requests", known)
        yield from fields.opaque_configuration(configuration, at)

    yield from fields.limited(constraints, MAX_CONSTRAINTS, f"{path}.constraints", check_constraint)
    yield from fields.limited(devices.get("config") or [], MAX_CONFIGURATIONS, f"{path}.config", check_configuration)


def request_names(devices: Object) -> frozenset[str]:
    """Everything a constraint or configuration may name: `request` and `request/subrequest`."""
    return frozenset(_request_names(devices["requests"] or []))


def _request_names(items: list[Object]) -> Iterator[str]:
    for request in items:
        yield request["name"]
        for subrequest in request.get("firstAvailable") or []:
            yield f"{request['name']}/{subrequest['name']}"


def references(items: list[str], path: str, known: frozenset[str]) -> Errors:
    yield from fields.limited(
        items, MAX_REFERENCES, path, lambda name, at: reference(name, at, known), key=fields.itself
    )


def reference(name: str, path: str, known: frozenset[str]) -> Errors:
    segments = name.split("/")
    if len(segments) > 2:
        yield errors.invalid(path, name, "must be the name of a request, or request/subrequest")
        return
    for segment in segments:
        yield from fields.label(segment, path)
    if name not in known:
        known_text = ", ".join(sorted(known)) or "none"
        yield errors.invalid(path, name, f"must be the name of a request in the claim; there are: {known_text}")


def _request(request: Object, path: str, rules: Rules, derived: _Derived) -> Errors:
    yield from fields.label(request["name"], f"{path}.name")
    exactly = request.get("exactly")
    alternatives = request.get("firstAvailable") or []
    if exactly is None and not alternatives:
        yield errors.required(path, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None and alternatives:
        yield errors.invalid(path, None, "exactly one of `exactly` or `firstAvailable` is required, but not both")
    elif exactly is not None:
        yield from _exact(exactly, f"{path}.exactly", rules, derived, request["name"], None)
    else:

        def check(subrequest: Object, at: str) -> Errors:
            yield from fields.label(subrequest["name"], f"{at}.name")
            yield from _exact(subrequest, at, rules, derived, request["name"], subrequest["name"])

        yield from fields.limited(alternatives, MAX_SUBREQUESTS, f"{path}.firstAvailable", check, key=fields.by("name"))


def _exact(
    request: Object,
    path: str,
    rules: Rules,
    derived: _Derived,
    name: str,
    subrequest: str | None,
) -> Errors:
    class_name = request["deviceClassName"]
    if not class_name:
        yield errors.required(f"{path}.deviceClassName")
    else:
        yield from fields.subdomain(class_name, f"{path}.deviceClassName")
    yield from expressions.selectors(request.get("selectors") or [], f"{path}.selectors", rules)
    yield from _allocation_mode(request, path)
    yield from taints.tolerations(request.get("tolerations") or [], f"{path}.tolerations")

    attributes = request.get("derivedAttributes") or []
    for index, attribute in enumerate(attributes):
        if attribute["name"] and not derived.covered(attribute["name"], name, subrequest):
            at = f"{path}.derivedAttributes[{index}].name"
            yield errors.invalid(at, attribute["name"], "must be used by a constraint that covers this request")

    def check(attribute: Object, at: str) -> Errors:
        return _derived_attribute(attribute, at, rules, derived)

    yield from fields.limited(
        attributes, MAX_DERIVED, f"{path}.derivedAttributes", check, key=fields.by("name"), declarative=True
    )


def _allocation_mode(request: Object, path: str) -> Errors:
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            yield errors.invalid(f"{path}.count", count, "must not be specified when allocationMode is All")
    elif mode == "ExactCount":
        if count <= 0:
            yield errors.invalid(f"{path}.count", count, "must be greater than zero")
    else:
        # Only v1beta1 leaves it empty, and there the declarative rule takes it for optional.
        yield errors.not_supported(f"{path}.allocationMode", mode, _MODES, declarative=bool(mode))


def _derived_attribute(attribute: Object, path: str, rules: Rules, derived: _Derived) -> Errors:
    name = attribute["name"]
    if not name:
        yield errors.required(f"{path}.name", declarative=True)
    else:
        yield from fields.fully_qualified_name(name, f"{path}.name", declarative=True)
    problems, cost = expressions.derived(attribute["expression"], f"{path}.expression", rules)
    yield from problems
    derived.cost += cost


def _constraint(constraint: Object, path: str, known: frozenset[str], rules: Rules) -> Errors:
    yield from references(constraint.get("requests") or [], f"{path}.requests", known)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        yield from fields.fully_qualified_name(match, f"{path}.matchAttribute")
    if distinct is not None:
        yield from fields.fully_qualified_name(distinct, f"{path}.distinctAttribute")
    if match is None and distinct is None:
        if rules.gates["DRAConsumableCapacity"]:
            yield errors.required(path, "one of `matchAttribute` or `distinctAttribute` is required")
        else:
            yield errors.required(f"{path}.matchAttribute")


def admin_access(devices: Object, rules: Rules) -> Errors:
    """Reports the first request with adminAccess outside admin namespaces; its path leaves out `exactly`."""
    if rules.admin_namespace:
        return
    for index, request in enumerate(devices["requests"] or []):
        if mapping(request.get("exactly")).get("adminAccess"):
            yield errors.forbidden(
                f"spec.devices.requests[{index}].adminAccess",
                NO_ADMIN_NAMESPACE,
            )
            return
