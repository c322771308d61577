"""Ingress and IngressClass: hosts, paths and where they lead."""

from __future__ import annotations

import re

from dray.api import errors, names
from dray.api.objects import Object, annotations_of, mapping
from dray.api.rules import Rules
from dray.api.validation import addresses, fields
from dray.api.validation.fields import Errors

_PATH_TYPES = ["Exact", "ImplementationSpecific", "Prefix"]
_SCOPES = ["Cluster", "Namespace"]
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_END = ("/..", "/.")
_LONGEST_CONTROLLER = 250
_PREFIXED_PATH = re.compile(r"[^/]+/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)


def validate(ingress: Object, rules: Rules) -> Errors:
    if annotations_of(ingress).get(_CLASS_ANNOTATION) and ingress["spec"].get("ingressClassName") is not None:
        detail = "can not be set when the class field is also set"
        yield errors.invalid(
            f"metadata.annotations.{_CLASS_ANNOTATION}", annotations_of(ingress)[_CLASS_ANNOTATION], detail
        )
    yield from _spec(ingress["spec"])


def validate_update(ingress: Object, old: Object, rules: Rules) -> Errors:
    yield from _spec(ingress["spec"])


def _spec(spec: Object) -> Errors:
    rules = spec.get("rules") or []
    if not rules and spec.get("defaultBackend") is None:
        yield errors.invalid("spec", rules, "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(rules):
        at = f"spec.rules[{index}]"
        if rule.get("host"):
            yield from _host(rule["host"], f"{at}.host")
        if rule.get("http") is not None:
            yield from _paths(rule["http"]["paths"] or [], f"{at}.http.paths")
    for index, tls in enumerate(spec.get("tls") or []):
        for position, host in enumerate(tls.get("hosts") or []):
            yield from _host(host, f"spec.tls[{index}].hosts[{position}]")
    if spec.get("ingressClassName") is not None:
        yield from fields.subdomain(spec["ingressClassName"], "spec.ingressClassName")


def _host(host: str, path: str) -> Errors:
    if addresses.address(host) is not None:
        yield errors.invalid(path, host, "must be a DNS name, not an IP address")
    elif not names.is_subdomain(host.removeprefix("*.")):
        yield errors.invalid(path, host, names.SUBDOMAIN_DETAIL)


def _paths(paths: list[Object], path: str) -> Errors:
    if not paths:
        yield errors.required(path)
    for index, each in enumerate(paths):
        at = f"{path}[{index}]"
        yield from _path(each.get("path") or "", each.get("pathType"), at)
        yield from _backend(each["backend"], f"{at}.backend")


def _path(text: str, kind: str | None, path: str) -> Errors:
    if kind is None:
        yield errors.required(f"{path}.pathType", "pathType must be specified")
    elif kind not in _PATH_TYPES:
        yield errors.not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    is_plain = kind in ("Exact", "Prefix")
    if not text.startswith("/") and (is_plain or text):
        yield errors.invalid(f"{path}.path", text, "must be an absolute path")
    if is_plain:
        for part in _NOT_IN_PATHS:
            if part in text:
                yield errors.invalid(f"{path}.path", text, f"must not contain '{part}'")
        for part in _NOT_AT_END:
            if text.endswith(part):
                yield errors.invalid(f"{path}.path", text, f"cannot end with '{part}'")


def _backend(backend: Object, path: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield errors.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        for member in ("kind", "name"):
            if not resource.get(member):
                yield errors.required(f"{path}.resource.{member}")
    elif service is None:
        yield errors.invalid(path, "", "resource or service backend is required")
    else:
        yield from _service(service, f"{path}.service")


def _service(service: Object, path: str) -> Errors:
    if not service["name"]:
        yield errors.required(f"{path}.name")
    else:
        yield from fields.label(service["name"], f"{path}.name")
    name, number = service["port"].get("name") or "", service["port"].get("number") or 0
    if name and number:
        yield errors.invalid(path, "", "cannot set both port name & port number")
    elif name:
        yield from addresses.port_name(name, f"{path}.port.name")
    elif number:
        yield from addresses.port_number(number, f"{path}.port.number")
    else:
        yield errors.required(path, "port name or number is required")


def validate_class(ingress_class: Object, rules: Rules) -> Errors:
    controller = ingress_class["spec"].get("controller") or ""
    if not controller:
        yield errors.required("spec.controller")
    elif names.size(controller) > _LONGEST_CONTROLLER:
        yield errors.too_long("spec.controller", _LONGEST_CONTROLLER)
    elif not _PREFIXED_PATH.fullmatch(controller) or not names.is_subdomain(controller.partition("/")[0]):
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield errors.invalid("spec.controller", controller, detail)
    yield from _parameters(mapping(ingress_class["spec"].get("parameters")), "spec.parameters")


def _parameters(parameters: Object, path: str) -> Errors:
    if not parameters:
        return
    for member in ("kind", "name"):
        if not parameters.get(member):
            yield errors.required(f"{path}.{member}", f"{member} is required")
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    yield from fields.enum(scope, _SCOPES, f"{path}.scope", required=True)
    if scope == "Namespace" and not namespace:
        yield errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Cluster" and namespace is not None:
        yield errors.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def validate_class_update(ingress_class: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_class(ingress_class, rules)
    yield from fields.immutable(
        ingress_class["spec"].get("controller"), old["spec"].get("controller"), "spec.controller"
    )
