"""Workload: a tree of templates for pod groups."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields, pod_groups
from dray.api.validation.fields import Errors

MAX_TEMPLATES = 8
MAX_DEPTH = 4
_LISTS = ("podGroupTemplates", "compositePodGroupTemplates")


def validate(workload: Object, rules: Rules) -> Errors:
    spec = workload["spec"]
    if spec.get("controllerRef") is not None:
        yield from _controller(spec["controllerRef"])
    chosen = {member: spec[member] for member in _LISTS if spec.get(member)}
    yield from fields.union(chosen, _LISTS, "spec")
    yield from _templates(spec, "spec", depth=1, seen=set())
    if len({(t.get("priority"), t.get("priorityClassName")) for t in every_template(spec)}) > 1:
        yield errors.invalid("spec", None, "priority and priorityClassName must be the same in all templates")


def validate_update(workload: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(workload, rules)
    spec, old_spec = workload["spec"], old["spec"]
    yield from fields.immutable(
        spec.get("controllerRef"), old_spec.get("controllerRef"), "spec.controllerRef", declarative=True
    )
    yield from _templates_update(spec, old_spec, "spec")


def every_template(parent: Object) -> Iterator[Object]:
    for member in _LISTS:
        for template in parent.get(member) or ():
            yield template
            yield from every_template(template)


def _controller(reference: Object) -> Errors:
    path = "spec.controllerRef"
    if reference.get("apiGroup"):
        yield from fields.subdomain(reference["apiGroup"], f"{path}.apiGroup")
    for member in ("kind", "name"):
        if not reference[member]:
            yield errors.required(f"{path}.{member}")
        elif not names.is_path_segment(reference[member]):
            yield errors.invalid(f"{path}.{member}", reference[member], "must not be '.', '..' or contain '/' or '%'")


def _templates(parent: Object, path: str, *, depth: int, seen: set[str]) -> Errors:
    def check_group(template: Object, at: str) -> Errors:
        yield from _name(template, at, seen)
        yield from pod_groups.common(template, at, count="minCount")

    def check_composite(template: Object, at: str) -> Errors:
        yield from _name(template, at, seen)
        yield from pod_groups.common(template, at, count="minGroupCount")
        if depth >= MAX_DEPTH:
            yield errors.invalid(at, template["name"], f"templates may be nested at most {MAX_DEPTH} levels deep")
            return
        if not any(template.get(member) for member in _LISTS):
            yield errors.invalid(at, template["name"], "must have at least one template below it")
        yield from _templates(template, at, depth=depth + 1, seen=seen)

    for member, check in zip(_LISTS, (check_group, check_composite), strict=True):
        items = parent.get(member) or []
        yield from fields.limited(items, MAX_TEMPLATES, f"{path}.{member}", check, key=fields.by("name"))


def _name(template: Object, path: str, seen: set[str]) -> Errors:
    name = template["name"]
    yield from fields.required_label(name, f"{path}.name")
    if name in seen:
        yield errors.duplicate(f"{path}.name", name)
    seen.add(name)


def _templates_update(parent: Object, old: Object, path: str) -> Errors:
    for member in _LISTS:
        before = {template["name"]: template for template in old.get(member) or []}
        items = parent.get(member) or []
        for index, template in enumerate(items):
            at = f"{path}.{member}[{index}]"
            old_template = before.get(template["name"])
            if old_template is None:
                yield errors.forbidden(at, "templates may not be added")
                continue
            for name in pod_groups.FIXED:
                yield from fields.immutable(
                    template.get(name), old_template.get(name), f"{at}.{name}", declarative=True
                )
            yield from pod_groups.policy_update(
                template["schedulingPolicy"], old_template["schedulingPolicy"], f"{at}.schedulingPolicy"
            )
            yield from _templates_update(template, old_template, at)
        if set(before) - {template["name"] for template in items}:
            yield errors.forbidden(f"{path}.{member}", "templates may not be removed")
