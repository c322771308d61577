"""Named formats of strings: `format.dns1123Label().validate(s)` yields the problems, or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final

from dray.cel import types as t
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.library.moments import parse_timestamp
from dray.cel.library.urls import parse_url
from dray.cel.values import NONE, Optional, Value, register_type

LIBRARY: Final = Library("formats")
LIBRARY.constants["kubernetes.NamedFormat"] = t.FORMAT

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str
    problems: Callable[[str], list[str]]
    regex_size: int
    """The size Kubernetes costs the check at, as if it were a regular expression of that length."""


register_type(NamedFormat, "kubernetes.NamedFormat")


def _pattern(pattern: re.Pattern[str], limit: int, what: str, *, prefix: bool = False) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        if prefix and text.endswith("-"):
            text = text[:-1] + "a"
        found = [f"must be no more than {limit} characters"] if len(text) > limit else []
        return found if pattern.fullmatch(text) else [*found, f"{what} must match {pattern.pattern}"]

    return check


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return ["a qualified name must consist of a name and an optional DNS subdomain prefix"]
    found: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {p}" for p in _pattern(_SUBDOMAIN, 253, "a DNS-1123 subdomain")(parts[0])]
    name = parts[-1]
    if not name:
        return [*found, "name part must be non-empty"]
    return found + [f"name part {p}" for p in _pattern(_NAME_PART, 63, "a name")(name)]


def _label_value(text: str) -> list[str]:
    return _pattern(_NAME_PART, 63, "a label value")(text) if text else []


def _uri(text: str) -> list[str]:
    return [] if parse_url(text) is not None else [f"parse {text[:64]!r}: invalid URI for request"]


def _date(text: str) -> list[str]:
    try:
        valid = _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        valid = False
    return [] if valid else ["invalid date"]


def _datetime(text: str) -> list[str]:
    try:
        parse_timestamp(text)
    except EvaluationError:
        return ["invalid datetime"]
    return []


def _whole(pattern: re.Pattern[str], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if pattern.fullmatch(text) else [problem]


_LABEL_TEXT: Final = "a lowercase RFC 1123 label"
_SUBDOMAIN_TEXT: Final = "a lowercase RFC 1123 subdomain"
_DNS1035_TEXT: Final = "a DNS-1035 label"
_FORMATS: Final = (
    NamedFormat("dns1123Label", _pattern(_LABEL, 63, _LABEL_TEXT), 30),
    NamedFormat("dns1123Subdomain", _pattern(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT), 60),
    NamedFormat("dns1035Label", _pattern(_DNS1035, 63, _DNS1035_TEXT), 30),
    NamedFormat("qualifiedName", _qualified_name, 60),
    NamedFormat("dns1123LabelPrefix", _pattern(_LABEL, 63, _LABEL_TEXT, prefix=True), 30),
    NamedFormat("dns1123SubdomainPrefix", _pattern(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT, prefix=True), 60),
    NamedFormat("dns1035LabelPrefix", _pattern(_DNS1035, 63, _DNS1035_TEXT, prefix=True), 30),
    NamedFormat("labelValue", _label_value, 40),
    NamedFormat("uri", _uri, 1103),
    NamedFormat("uuid", _whole(_UUID, "does not match the UUID format"), 70),
    NamedFormat("byte", _whole(_BASE64, "invalid base64"), 84),
    NamedFormat("date", _date, 71),
    NamedFormat("datetime", _datetime, 71),
)
_BY_NAME: Final = {format_.name: format_ for format_ in _FORMATS}


def _named(name: Value) -> Optional:
    if type(name) is not str:
        raise no_such_overload("format.named")
    found = _BY_NAME.get(name)
    return NONE if found is None else Optional(found)


def _validate(format_: Value, text: Value) -> Optional:
    if not isinstance(format_, NamedFormat) or type(text) is not str:
        raise no_such_overload("validate")
    problems = format_.problems(text)
    return Optional(list(problems)) if problems else NONE


def _constant(format_: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: format_


for _format in _FORMATS:
    LIBRARY.function(f"format.{_format.name}", _constant(_format), f"format_{_format.name}: () -> Format")
LIBRARY.function("format.named", _named, "format_named: (string) -> optional<Format>")
LIBRARY.function("validate", _validate, "format_validate: Format.(string) -> optional<list<string>>")
