"""Containers of a pod: image, environment, ports, mounts, probes, resources and the claims they use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dray.api import errors
from dray.api.objects import Object
from dray.api.validation import amounts, fields, paths, security_contexts
from dray.api.validation.fields import Errors

_PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = ("ports", *_PROBES, "lifecycle", "resources")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PORT_NAME = re.compile(r"(?!-)(?!.*--)(?=.*[a-z])[a-z0-9-]{1,15}(?<!-)", re.ASCII)
_PORT_NAME_DETAIL = "at most 15 lower case letters, digits and single '-' within, with at least one letter"
_VARIABLE = re.compile(r"[ -<>-~]+")
_VARIABLE_DETAIL = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_MAX_PORT = 65535
PORT_RANGE = f"must be between 1 and {_MAX_PORT}, inclusive"
_MESSAGE_POLICIES = ["FallbackToLogsOnError", "File"]


@dataclass(slots=True)
class PodContext:
    """Names, claims, volumes and host ports that the containers of a pod share."""

    claims: frozenset[str]
    volumes: frozenset[str]
    names: set[str] = field(default_factory=set)
    host_ports: set[tuple[str, str, int]] = field(default_factory=set)


def validate(container: Object, path: str, around: PodContext, *, ephemeral: bool = False) -> Errors:
    name = container["name"]
    if not name:
        yield errors.required(f"{path}.name")
    else:
        yield from fields.label(name, f"{path}.name")
    if name in around.names:
        yield errors.duplicate(f"{path}.name", name)
    elif name:
        around.names.add(name)
    yield from _image(container, path)
    if container.get("env"):
        yield from _environment(container["env"], f"{path}.env")
    if container.get("envFrom"):
        yield from _environment_sources(container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts") or container.get("volumeDevices"):
        yield from _mounts(container, path, around.volumes)
    if container.get("securityContext"):
        yield from security_contexts.validate_container(container["securityContext"], f"{path}.securityContext")
    resources = container["resources"]
    if ephemeral:
        for member in _NOT_EPHEMERAL:
            if container.get(member):
                yield errors.forbidden(f"{path}.{member}", "cannot be set for an ephemeral container")
        return
    if container.get("ports"):
        yield from _ports(container["ports"], f"{path}.ports", around)
    for member in _PROBES:
        if container.get(member) is not None:
            yield from _probe(container[member], f"{path}.{member}", member)
    if resources:
        yield from amounts.requirements(resources, f"{path}.resources")
        yield from _claims(resources.get("claims") or [], f"{path}.resources.claims", around.claims)


def _image(container: Object, path: str) -> Errors:
    image = container.get("image", "")
    if not image:
        yield errors.required(f"{path}.image")
    elif image != image.strip():
        yield errors.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from fields.enum(container.get("imagePullPolicy"), _PULL_POLICIES, f"{path}.imagePullPolicy", required=True)
    at = f"{path}.terminationMessagePolicy"
    yield from fields.enum(container.get("terminationMessagePolicy"), _MESSAGE_POLICIES, at)


def _environment(variables: list[Object], path: str) -> Errors:
    for index, variable in enumerate(variables):
        at, name = f"{path}[{index}]", variable["name"]
        if not name:
            yield errors.required(f"{at}.name")
        elif _VARIABLE.fullmatch(name) is None:
            yield errors.invalid(f"{at}.name", name, _VARIABLE_DETAIL)
        if variable.get("valueFrom") is not None:
            yield from _source(variable, f"{at}.valueFrom")


def _environment_sources(sources: list[Object], path: str) -> Errors:
    """Objects whose keys become variables. Kubernetes reports a wrong number of them at the list."""
    for index, source in enumerate(sources):
        prefix = source.get("prefix")
        if prefix and _VARIABLE.fullmatch(prefix) is None:
            yield errors.invalid(f"{path}[{index}].prefix", prefix, _VARIABLE_DETAIL)
        given = [member for member in ("configMapRef", "secretRef") if source.get(member) is not None]
        for member in given:
            name, at = source[member].get("name"), f"{path}[{index}].{member}.name"
            if not name:
                yield errors.required(at)
            else:
                yield from fields.subdomain(name, at)
        if not given:
            yield errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield errors.invalid(path, "", "may not have more than one field specified at a time")


def _source(variable: Object, path: str) -> Errors:
    given = [member for member in _SOURCES if variable["valueFrom"].get(member) is not None]
    if not given:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        yield errors.invalid(path, "", detail)
    elif variable.get("value"):
        yield errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield errors.invalid(path, "", "may not have more than one field specified at a time")


def _ports(ports: list[Object], path: str, around: PodContext) -> Errors:
    seen = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        name, number, host_port = port.get("name", ""), port["containerPort"], port.get("hostPort", 0)
        if name:
            if _PORT_NAME.fullmatch(name) is None:
                yield errors.invalid(f"{at}.name", name, _PORT_NAME_DETAIL)
            elif name in seen:
                yield errors.duplicate(f"{at}.name", name)
            seen.add(name)
        if not number:
            yield errors.required(f"{at}.containerPort")
        elif not 0 < number <= _MAX_PORT:
            yield errors.invalid(f"{at}.containerPort", number, PORT_RANGE)
        if host_port and not 0 < host_port <= _MAX_PORT:
            yield errors.invalid(f"{at}.hostPort", host_port, PORT_RANGE)
        yield from fields.enum(port.get("protocol"), _PROTOCOLS, f"{at}.protocol", required=True)
        if host_port:
            taken = (port.get("protocol", ""), port.get("hostIP", ""), host_port)
            if taken in around.host_ports:
                yield errors.duplicate(f"{at}.hostPort", "/".join(map(str, taken)))
            around.host_ports.add(taken)


def _mounts(container: Object, path: str, volumes: frozenset[str]) -> Errors:
    devices = container.get("volumeDevices") or []
    for member, place, items in (
        ("volumeDevices", "devicePath", devices),
        ("volumeMounts", "mountPath", container.get("volumeMounts") or []),
    ):
        seen = set()
        for index, item in enumerate(items):
            at = f"{path}.{member}[{index}]"
            if not item["name"]:
                yield errors.required(f"{at}.name")
            if item["name"] not in volumes:
                yield errors.not_found(f"{at}.name", item["name"])
            if not item[place]:
                yield errors.required(f"{at}.{place}")
            elif item[place] in seen:
                yield errors.invalid(f"{at}.{place}", item[place], "must be unique")
            seen.add(item[place])
            if member == "volumeDevices":
                if ".." in str(item[place]).split("/"):
                    yield errors.invalid(f"{at}.{place}", item[place], "can not contain backsteps ('..')")
                continue
            if any(item["name"] == device["name"] for device in devices):
                yield errors.invalid(f"{at}.name", item["name"], "must not already exist in volumeDevices")
            yield from _part_of_volume(item, at, f"{path}.{member}")


def _part_of_volume(mount: Object, at: str, mounts: str) -> Errors:
    """Kubernetes reports most of these at the list of mounts."""
    if mount.get("subPath"):
        yield from paths.descending(mount["subPath"], f"{mounts}.subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            detail = "subPathExpr and subPath are mutually exclusive"
            yield errors.invalid(f"{at}.subPathExpr", mount["subPathExpr"], detail)
        yield from paths.descending(mount["subPathExpr"], f"{mounts}.subPathExpr")


def _probe(probe: Object, path: str, member: str) -> Errors:
    given = [handler for handler in _HANDLERS if probe.get(handler) is not None]
    if not given:
        yield errors.required(path, "must specify a handler type")
    for handler in given[1:]:
        yield errors.forbidden(f"{path}.{handler}", "may not specify more than 1 handler type")
    for number in _NUMBERS:
        if probe.get(number, 0) < 0:
            yield errors.invalid(f"{path}.{number}", probe[number], "must be greater than or equal to 0")
    if member != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        yield errors.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _claims(entries: list[Object], path: str, claims: frozenset[str]) -> Errors:
    """A claim is taken whole or request by request, each of them once."""
    whole: set[str] = set()
    partial: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        name, request = entry["name"], entry.get("request", "")
        if not name:
            yield errors.required(at)
        elif request:
            if name in whole or (name, request) in pairs:
                yield errors.duplicate(at, f"{name}/{request}")
            pairs.add((name, request))
            partial.add(name)
        else:
            if name in whole or name in partial:
                yield errors.duplicate(at, name)
            whole.add(name)
        if name and name not in claims:
            yield errors.not_found(at, name)
        if request:
            yield from fields.label(request, f"{at}.request")
