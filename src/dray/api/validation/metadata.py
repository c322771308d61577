"""ObjectMeta: names, labels, annotations, owners, what an update may not touch; and LabelSelectors."""

from collections.abc import Callable
from typing import Any

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.validation.fields import Errors

MAX_ANNOTATIONS = 256 * 1024
# Whether a text is a name of the kind, and what is said where it is not.
NameRule = tuple[Callable[[str], bool], str]
SUBDOMAIN: NameRule = (names.is_subdomain, names.SUBDOMAIN_DETAIL)
LABEL: NameRule = (names.is_label, names.LABEL_DETAIL)
PATH_SEGMENT: NameRule = (names.is_path_segment, "may not be '.' or '..' or contain '/' or '%'")
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def validate_create(
    meta: Object,
    *,
    namespaced: bool,
    path: str = "metadata",
    name_rule: NameRule = SUBDOMAIN,
    any_finalizer: bool = False,
) -> Errors:
    """`any_finalizer`: the names of finalizers need no domain, as those of definitions and custom objects."""
    name = meta.get("name", "")
    generate_name = meta.get("generateName", "")
    is_name, detail = name_rule
    if generate_name:
        base = generate_name.removesuffix("-")
        if not is_name(base):
            yield errors.invalid(f"{path}.generateName", generate_name, detail)
    if name:
        if not is_name(name):
            yield errors.invalid(f"{path}.name", name, detail)
    elif not generate_name:
        yield errors.required(f"{path}.name", "name or generateName is required")
    if namespaced and not meta.get("namespace"):
        yield errors.required(f"{path}.namespace")
    elif not namespaced and meta.get("namespace"):
        yield errors.forbidden(f"{path}.namespace", "not allowed on this type")
    yield from _content(meta, path, any_finalizer=any_finalizer)


def _content(meta: Object, path: str, *, any_finalizer: bool) -> Errors:
    if meta.get("generation", 0) < 0:
        yield errors.invalid(f"{path}.generation", meta["generation"], "must not be negative")
    for member, check in _CONTENT:
        if given := meta.get(member):
            yield from check(given, f"{path}.{member}")
    for index, finalizer in enumerate(meta.get("finalizers") or []):
        if not names.is_label_key(finalizer):
            yield errors.invalid(f"{path}.finalizers[{index}]", finalizer, names.LABEL_KEY_DETAIL)
        elif not any_finalizer and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield errors.invalid(f"{path}.finalizers[{index}]", finalizer, detail)


def labels(value: Object, path: str) -> Errors:
    for key, text in value.items():
        if not names.is_label_key(key):
            yield errors.invalid(path, key, names.LABEL_KEY_DETAIL)
        if not names.is_label_value(text):
            yield errors.invalid(path, text, names.LABEL_VALUE_DETAIL)


def annotations(value: Object, path: str) -> Errors:
    total = 0
    for key, text in value.items():
        if not names.is_label_key(key.lower()):
            yield errors.invalid(path, key, names.LABEL_KEY_DETAIL)
        total += names.size(key) + names.size(text)
    if total > MAX_ANNOTATIONS:
        yield errors.too_long(path, MAX_ANNOTATIONS)


def _owners(owners: list[Object], path: str) -> Errors:
    controllers = 0
    for index, owner in enumerate(owners):
        at = f"{path}[{index}]"
        if not owner.get("apiVersion", "").rpartition("/")[2]:
            yield errors.invalid(f"{at}.apiVersion", owner.get("apiVersion", ""), "version must not be empty")
        for member in ("kind", "name", "uid"):
            if not owner.get(member):
                yield errors.required(f"{at}.{member}", f"{member} must not be empty")
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        yield errors.invalid(path, owners, "only one owner may be the controller")


_CONTENT: tuple[tuple[str, Callable[[Any, str], Errors]], ...] = (
    ("labels", labels),
    ("annotations", annotations),
    ("ownerReferences", _owners),
)


def validate_update(
    meta: Object, old: Object, *, namespaced: bool, path: str = "metadata", any_finalizer: bool = False
) -> Errors:
    for member in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if meta.get(member) != old.get(member):
            yield errors.invalid(f"{path}.{member}", meta.get(member), "field is immutable")
    if old.get("deletionTimestamp"):
        added = set(meta.get("finalizers") or []) - set(old.get("finalizers") or [])
        if added:
            yield errors.forbidden(
                f"{path}.finalizers",
                f"no finalizer may be added while the object is being deleted: {sorted(added)}",
            )
    if meta.get("generation", 0) < old.get("generation", 0):
        yield errors.invalid(f"{path}.generation", meta.get("generation"), "must not be decremented")
    yield from _content(meta, path, any_finalizer=any_finalizer)


def template(meta: Object, path: str) -> Errors:
    """The metadata a ResourceClaimTemplate gives its claims: labels and annotations, nothing else."""
    yield from labels(mapping(meta.get("labels")), f"{path}.labels")
    yield from annotations(mapping(meta.get("annotations")), f"{path}.annotations")
    for member in sorted(meta):
        if member not in ("labels", "annotations"):
            yield errors.forbidden(f"{path}.{member}", "cannot be set for a template")


def label_selector(selector: Object, path: str) -> Errors:
    yield from labels(mapping(selector.get("matchLabels")), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or []):
        yield from _selector_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _selector_requirement(requirement: Object, path: str) -> Errors:
    operator, values = requirement["operator"], requirement.get("values") or []
    if operator in _WITH_VALUES and not values:
        yield errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield errors.forbidden(f"{path}.values", detail)
    elif operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        yield errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    if not names.is_label_key(requirement["key"]):
        yield errors.invalid(f"{path}.key", requirement["key"], names.LABEL_KEY_DETAIL)
    for index, value in enumerate(values):
        if not names.is_label_value(value):
            yield errors.invalid(f"{path}.values[{index}]", value, names.LABEL_VALUE_DETAIL)
