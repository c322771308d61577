"""Custom objects on their way in: pruned, defaulted, checked, with spec and status kept apart.

The counterpart of api.intake for kinds that are defined at run time, with the same verdicts: a document with unknown
members is refused as such, and `prune` gives the one without them.
"""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from itertools import chain, islice

from dray.api import errors, intake, schema
from dray.api.errors import ErrorType, FieldError
from dray.api.intake import Accepted, Place, Refusal
from dray.api.objects import Object, take_members
from dray.api.strategy import SERVER_OWNED
from dray.api.validation import metadata as metadata_rules
from dray.server.custom import defaults, schema_check
from dray.server.custom.definitions import CustomVersion
from dray.server.custom.rules import RuleEvaluation, RuleNode
from dray.server.custom.schema_check import NEW, NO_FIELD
from dray.server.patches.json_patch import equal

_META = "meta_v1.ObjectMeta"
# Limit of reported errors: a list of thousands may have the same error in each item.
_MOST_ERRORS = 100
# Rules are evaluated only if an object has none of these errors.
_BLOCKING = frozenset({ErrorType.TYPE_INVALID, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY})


def create(document: Object, version: CustomVersion, place: Place) -> Accepted | Refusal:
    obj = decode(document, version)
    if isinstance(obj, Refusal):
        return obj
    refusal = intake.settle_namespace(obj["metadata"], place, namespaced=version.namespaced)
    if refusal:
        return refusal
    if version.status:
        obj.pop("status", None)
    for member in SERVER_OWNED:
        obj["metadata"].pop(member, None)
    obj["metadata"]["generation"] = 1
    problems = list(metadata_rules.validate_create(obj["metadata"], namespaced=version.namespaced, any_finalizer=True))
    return _verdict(obj, version, [*problems, *_check(obj, version)])


def update(
    document: Object, old: Object, version: CustomVersion, place: Place, subresource: str = ""
) -> Accepted | Refusal:
    """Checks an update; `old` is the stored object in any version, `subresource` is empty or `status`."""
    obj = decode(document, version)
    if isinstance(obj, Refusal):
        return obj
    metadata = obj["metadata"]
    refusal = intake.settle_namespace(metadata, place, namespaced=version.namespaced)
    refusal = refusal or intake.settle_name(metadata, place)
    if refusal:
        return refusal
    obj = _prepared_status(obj, old, version) if subresource == "status" else _prepared(obj, old, version)
    before, after = old["metadata"], obj["metadata"]
    problems = list(metadata_rules.validate_update(after, before, namespaced=version.namespaced, any_finalizer=True))
    if not after.get("resourceVersion"):
        problems.append(errors.invalid("metadata.resourceVersion", 0, "must be specified for an update"))
    return _verdict(obj, version, [*problems, *_check(obj, version, old)])


def decode(document: Object, version: CustomVersion) -> Object | Refusal:
    """Returns the document with defaults, or a refusal if it is not an object of the kind."""
    refusal = intake.check_identity(document, version.api_version, version.kind)
    if refusal:
        return refusal
    metadata, problems = schema.read(document.get("metadata") or {}, _META)
    found = [FieldError(problem.type, f"metadata.{problem.field}", problem.detail) for problem in problems]
    pruned, dropped = defaults.prune(document, version.schema)
    found += [FieldError(ErrorType.UNKNOWN_FIELD, path, f'unknown field "{path}"') for path in dropped]
    if found:
        return intake.undecodable(found)
    obj = deepcopy({name: value for name, value in pruned.items() if name != "metadata"})
    obj.update(apiVersion=version.api_version, kind=version.kind)
    try:
        defaults.complete(obj, version.schema)
    except defaults.TooLarge:
        message = f"Request entity too large: limit is {defaults.MAX_BYTES} bytes of defaults"
        return Refusal(413, "RequestEntityTooLarge", message)
    obj["metadata"] = schema.write(metadata, _META)
    return obj


def prune(document: Object, version: CustomVersion) -> Object:
    """Returns the document without unknown members."""
    kept: Object = defaults.prune(document, version.schema)[0]
    return {**kept, "metadata": schema.read(document.get("metadata") or {}, _META)[0]}


def _check(obj: Object, version: CustomVersion, old: Object | None = None) -> list[FieldError]:
    before = NEW if old is None else old
    checks = chain(schema_check.check(obj, version.schema, old=before), schema_check.check_unique(obj, version.schema))
    try:
        found = list(islice(checks, _MOST_ERRORS))
    except schema_check.TooMuchWork:
        detail = "the schema takes too much work to check this object; shorten its lists or those of alternatives"
        return [errors.invalid(NO_FIELD, "", detail)]
    root = _rules(version)
    if not root:
        return found
    if any(error.type in _BLOCKING for error in found):
        detail = "some validation rules were not checked because the object was invalid; correct the existing errors"
        return [*found, errors.invalid(NO_FIELD, None, f"{detail} to complete validation")]
    past = NEW if old is None else _visible(old)
    return [*found, *RuleEvaluation().check(_visible(obj), root, old=past)]


@lru_cache(maxsize=32)
def _rules(version: CustomVersion) -> RuleNode:
    return RuleNode(version.schema)


def _visible(obj: Object) -> Object:
    """Returns the object as rules see it: with only the names of its metadata."""
    metadata = {name: obj["metadata"][name] for name in ("name", "generateName") if name in obj["metadata"]}
    return {**obj, "metadata": metadata}


def _prepared(obj: Object, old: Object, version: CustomVersion) -> Object:
    """Prepares an update outside of the status; sets a new generation if more than metadata changes."""
    if version.status:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]
    take_members(obj["metadata"], old["metadata"], SERVER_OWNED)
    if not equal(_content(obj), _content(old)):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return obj


def _prepared_status(obj: Object, old: Object, version: CustomVersion) -> Object:
    kept = {name: value for name, value in old.items() if name != "status"}
    metadata = {**old["metadata"], "resourceVersion": obj["metadata"].get("resourceVersion", "")}
    metadata.pop("managedFields", None)
    if "managedFields" in obj["metadata"]:
        metadata["managedFields"] = obj["metadata"]["managedFields"]
    status = {"status": obj["status"]} if "status" in obj else {}
    return {**kept, "apiVersion": version.api_version, "metadata": metadata, **status}


def _content(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}


def _verdict(obj: Object, version: CustomVersion, problems: list[FieldError]) -> Accepted | Refusal:
    return intake.invalid(obj, version.group, version.kind, problems) if problems else Accepted(obj)
