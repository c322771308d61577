"""The rules a CustomResourceDefinition is held to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dray.api import errors, json_path, names
from dray.api.errors import FieldError
from dray.api.objects import Object, mapping, sequence, text
from dray.api.repeats import repeats
from dray.api.validation.webhooks import client_config
from dray.cel import patterns
from dray.server.custom import rule_costs, rules, structural
from dray.server.custom.conversion import REVIEWS
from dray.server.custom.rules import RuleNode
from dray.server.webhook_client import WebhookError, trusting

Errors = Iterator[FieldError]

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAME_DETAIL = "a DNS label that begins with a letter: lower case letters, digits and '-'"
_COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"]
_COLUMN_FORMATS = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"]
_APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = (".k8s.io", ".kubernetes.io")


def check(definition: Object, old: Object | None = None) -> list[FieldError]:
    """Returns the errors of a definition that was defaulted, without those of its metadata."""
    with patterns.limit(patterns.MOST_IN_DEFINITION):
        return list(_check(definition, old or {}))


def _check(definition: Object, old: Object) -> Errors:
    spec = mapping(definition.get("spec"))
    metadata = mapping(definition.get("metadata"))
    group, plural = text(spec.get("group")), text(mapping(spec.get("names")).get("plural"))
    if metadata.get("name") != f"{plural}.{group}":
        yield errors.invalid("metadata.name", metadata.get("name", ""), 'must be spec.names.plural+"."+spec.group')
    if group.endswith(_PROTECTED) and not mapping(metadata.get("annotations")).get(_APPROVAL):
        detail = "protected groups must have approval annotation"
        yield errors.required(f"metadata.annotations[{_APPROVAL}]", detail)
    yield from _check_group(group)
    scope = spec.get("scope")
    if not scope:
        yield errors.required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield errors.not_supported("spec.scope", scope, ["Cluster", "Namespaced"])
    yield from _check_names(mapping(spec.get("names")))
    yield from _check_versions(sequence(spec.get("versions")))
    if spec.get("preserveUnknownFields"):
        yield errors.invalid("spec.preserveUnknownFields", True, "must be false")
    yield from _check_conversion(mapping(spec.get("conversion")), mapping(mapping(old.get("spec")).get("conversion")))
    former = _schemas(sequence(mapping(old.get("spec")).get("versions")))
    yield from _check_schemas(sequence(spec.get("versions")), former)


def _check_conversion(conversion: Object, old: Object) -> Errors:
    path, strategy = "spec.conversion", conversion.get("strategy")
    webhook = conversion.get("webhook")
    if not strategy:
        yield errors.required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield errors.not_supported(f"{path}.strategy", strategy, ["None", "Webhook"])
    # Kubernetes reports the members of `webhook` one level higher.
    if strategy != "Webhook":
        if mapping(webhook).get("clientConfig") is not None:
            detail = "should not be set when strategy is not set to Webhook"
            yield errors.forbidden(f"{path}.webhookClientConfig", detail)
        if mapping(webhook).get("conversionReviewVersions"):
            detail = "should not be set when strategy is not set to Webhook"
            yield errors.forbidden(f"{path}.conversionReviewVersions", detail)
        return
    client = mapping(webhook).get("clientConfig")
    if client is None:
        yield errors.required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_config(client, f"{path}.webhookClientConfig")
        yield from _check_bundle(client, mapping(mapping(old.get("webhook")).get("clientConfig")))
    former = sequence(mapping(old.get("webhook")).get("conversionReviewVersions"))
    yield from _check_reviews(sequence(mapping(webhook).get("conversionReviewVersions")), former)


def _check_bundle(client: Object, former: Object) -> Errors:
    bundle = text(client.get("caBundle"))
    if bundle and bundle != former.get("caBundle"):
        try:
            trusting(bundle)
        except WebhookError as error:
            yield errors.invalid("spec.conversion.webhookClientConfig.caBundle", bundle, str(error))


def _check_reviews(reviews: list[Any], former: list[Any]) -> Errors:
    path = "spec.conversion.conversionReviewVersions"
    if not reviews:
        yield errors.required(path)
        return
    for index, (review, is_repeated) in enumerate(zip(reviews, repeats(reviews), strict=True)):
        if is_repeated:
            yield errors.invalid(f"{path}[{index}]", review, "duplicate version")
        elif not _is_name(text(review)):
            yield errors.invalid(f"{path}[{index}]", review, _NAME_DETAIL)
    if not set(reviews) & set(REVIEWS) and (not former or set(former) & set(REVIEWS)):
        yield errors.invalid(path, reviews, f"must include at least one of {', '.join(REVIEWS)}")


def _check_group(group: str) -> Errors:
    if not group:
        yield errors.required("spec.group")
    elif not names.is_subdomain(group):
        yield errors.invalid("spec.group", group, names.SUBDOMAIN_DETAIL)
    elif "." not in group:
        yield errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _check_names(given: Object) -> Errors:
    for member in ("plural", "singular", "kind", "listKind"):
        value = text(given.get(member))
        if not value:
            yield errors.required(f"spec.names.{member}")
        comparable = value.lower() if member in ("kind", "listKind") else value
        if not _is_name(comparable):
            yield errors.invalid(f"spec.names.{member}", value, _NAME_DETAIL)
    for member in ("shortNames", "categories"):
        for index, value in enumerate(sequence(given.get(member))):
            if not _is_name(text(value)):
                yield errors.invalid(f"spec.names.{member}[{index}]", value, _NAME_DETAIL)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield errors.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


def _is_name(value: str) -> bool:
    return len(value) <= 63 and _DNS_1035.fullmatch(value) is not None


def _check_versions(versions: list[Any]) -> Errors:
    seen = set()
    for index, version in enumerate(map(mapping, versions)):
        at = f"spec.versions[{index}]"
        name = text(version.get("name"))
        if not _is_name(name):
            yield errors.invalid(f"{at}.name", name, _NAME_DETAIL)
        if name in seen:
            yield errors.invalid(
                "spec.versions", [mapping(v).get("name") for v in versions], "must contain unique version names"
            )
        seen.add(name)
        yield from _check_columns(sequence(version.get("additionalPrinterColumns")), f"{at}.additionalPrinterColumns")
        yield from _check_scale(mapping(version.get("subresources")).get("scale"), f"{at}.subresources.scale")
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            detail = "can only be set for deprecated versions"
            yield errors.invalid(f"{at}.deprecationWarning", version["deprecationWarning"], detail)
    if sum(bool(mapping(version).get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield errors.invalid("spec.versions", [mapping(v).get("name") for v in versions], detail)


def _check_columns(columns: list[Any], path: str) -> Errors:
    for index, column in enumerate(map(mapping, columns)):
        at = f"{path}[{index}]"
        if not column.get("name"):
            yield errors.required(f"{at}.name")
        kind = column.get("type")
        if not kind:
            yield errors.required(f"{at}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            yield errors.invalid(f"{at}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield errors.invalid(f"{at}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        place = text(column.get("jsonPath"))
        if not place:
            yield errors.required(f"{at}.jsonPath")
        elif json_path.parse(place) is None:
            yield errors.invalid(f"{at}.jsonPath", place, "is an invalid jsonpath")


def _check_scale(scale: Any, path: str) -> Errors:
    if scale is None:
        return
    for member, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        place = text(mapping(scale).get(member))
        if not place:
            yield errors.required(f"{path}.{member}")
        elif not place.startswith(root):
            yield errors.invalid(f"{path}.{member}", place, f"should be a json path under {root[:-1]}")


def _schemas(versions: list[Any]) -> list[Any]:
    return [mapping(mapping(version).get("schema")).get("openAPIV3Schema") for version in versions]


def _check_schemas(versions: list[Any], former: list[Any]) -> Errors:
    schemas = _schemas(versions)
    for index, schema in enumerate(schemas):
        if schema is None:
            yield errors.required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
    given = [(index, schema) for index, schema in enumerate(schemas) if schema is not None]
    if given and len(given) == len(versions) and all(schema == given[0][1] for _, schema in given):
        # Kubernetes stores a schema that all versions share at the top level, and reports it there.
        yield from _check_schema(given[0][1], "spec.validation.openAPIV3Schema", former)
        return
    for index, schema in given:
        yield from _check_schema(schema, f"spec.versions[{index}].schema.openAPIV3Schema", former)


def _check_schema(schema: Any, path: str, former: list[Any]) -> Errors:
    """Checks a schema; estimates the cost of its rules only if it has changed."""
    problems = list(structural.check_shape(schema, path)) or list(structural.check(schema, path))
    yield from problems
    if problems:
        return
    root = RuleNode(schema, path)
    yield from rules.check_declared(root)
    if schema not in former:
        yield from rule_costs.check_cost(root)


def check_update(definition: Object, old: Object) -> list[FieldError]:
    """Checks an update of a definition, including fields that must not change once a kind is served."""
    found = check(definition, old)
    spec, before = mapping(definition.get("spec")), mapping(old.get("spec"))
    conditions = sequence(mapping(old.get("status")).get("conditions"))
    established = any(c.get("type") == "Established" and c.get("status") == "True" for c in map(mapping, conditions))
    fixed: list[tuple[str, Any, Any]] = [("spec.group", spec.get("group"), before.get("group"))]
    if established:
        given, former = mapping(spec.get("names")), mapping(before.get("names"))
        fixed.append(("spec.scope", spec.get("scope"), before.get("scope")))
        fixed += [(f"spec.names.{member}", given.get(member), former.get(member)) for member in ("kind", "plural")]
    found += [errors.invalid(path, new, "field is immutable") for path, new, was in fixed if new != was]
    stored = sequence(mapping(old.get("status")).get("storedVersions"))
    present = [mapping(version).get("name") for version in sequence(spec.get("versions"))]
    for index, name in enumerate(stored):
        if name not in present:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
                " status.storedVersions"
            )
            found.append(errors.invalid(f"status.storedVersions[{index}]", name, detail))
    return found
