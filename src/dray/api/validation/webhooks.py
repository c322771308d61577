"""Webhook configurations: names, where the webhook is reached, and what happens if it is not."""

from __future__ import annotations

from urllib.parse import urlsplit

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.repeats import repeats
from dray.api.rules import Rules
from dray.api.validation import fields, metadata, resource_rules
from dray.api.validation.fields import Errors

_REVIEWS = ("v1", "v1beta1")
_SECONDS = (1, 30)
_SCHEME = "'https' is the only allowed URL scheme"


def validate(configuration: Object, rules: Rules) -> Errors:
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        at, name = f"webhooks[{index}]", webhook.get("name") or ""
        yield from _name(name, f"{at}.name")
        if name in seen:
            yield errors.duplicate(f"{at}.name", name)
        seen.add(name)
        yield from _webhook(webhook, at)


def _name(name: str, path: str) -> Errors:
    if not name:
        yield errors.required(path)
    elif not names.is_subdomain(name):
        yield errors.invalid(path, name, names.SUBDOMAIN_DETAIL)
    elif name.count(".") < 2:
        yield errors.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _webhook(webhook: Object, at: str) -> Errors:
    yield from _reviews(webhook.get("admissionReviewVersions") or [], f"{at}.admissionReviewVersions")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from resource_rules.resource_rule(rule, f"{at}.rules[{index}]")
    yield from fields.enum(webhook.get("failurePolicy"), ["Fail", "Ignore"], f"{at}.failurePolicy")
    yield from fields.enum(webhook.get("matchPolicy"), ["Equivalent", "Exact"], f"{at}.matchPolicy")
    yield from fields.enum(webhook.get("sideEffects"), ["None", "NoneOnDryRun"], f"{at}.sideEffects", required=True)
    yield from fields.enum(webhook.get("reinvocationPolicy"), ["IfNeeded", "Never"], f"{at}.reinvocationPolicy")
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not _SECONDS[0] <= seconds <= _SECONDS[1]:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield errors.invalid(f"{at}.timeoutSeconds", seconds, detail)
    for member in ("namespaceSelector", "objectSelector"):
        if webhook.get(member) is not None:
            yield from metadata.label_selector(webhook[member], f"{at}.{member}")
    yield from client_config(webhook["clientConfig"], f"{at}.clientConfig")
    yield from resource_rules.conditions(webhook.get("matchConditions") or [], f"{at}.matchConditions")


def _reviews(versions: list[str], path: str) -> Errors:
    known = ", ".join(_REVIEWS)
    if not versions:
        yield errors.required(path, f"must specify one of {known}")
        return
    for index, is_repeated in enumerate(repeats(versions)):
        if is_repeated:
            yield errors.invalid(f"{path}[{index}]", versions[index], "duplicate version")
    if not set(versions) & set(_REVIEWS):
        yield errors.invalid(path, versions, f"must include at least one of {known}")


def client_config(client: Object, path: str) -> Errors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield errors.required(path, "exactly one of url or service is required")
    if url is not None:
        yield from _url(url, f"{path}.url")
    if service is not None:
        yield from _service(service, f"{path}.service")


def _url(url: str, path: str) -> Errors:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        yield errors.required(path, f"url must be a valid URL: {error}")
        return
    if parts.scheme != "https":
        yield errors.invalid(path, parts.scheme, f"{_SCHEME}; desired format: https://host[/path]")
    if not host:
        yield errors.invalid(path, host or "", "host must be specified; desired format: https://host[/path]")
    if parts.username or parts.password:
        yield errors.invalid(path, "", "user information is not permitted in the URL")
    if parts.fragment:
        yield errors.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield errors.invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service(service: Object, path: str) -> Errors:
    for member in ("name", "namespace"):
        if not service.get(member):
            yield errors.required(f"{path}.{member}", f"service {member} is required")
    if not 1 <= service.get("port", 443) <= 65535:
        yield errors.invalid(
            f"{path}.port", service["port"], "port is not valid: must be between 1 and 65535, inclusive"
        )
    where = service.get("path")
    if where and (not where.startswith("/") or "//" in where):
        yield errors.invalid(f"{path}.path", where, "must be a path that starts with '/' and has no empty segment")
