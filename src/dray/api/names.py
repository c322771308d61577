"""The formats of names: DNS labels and subdomains, label keys and values, drivers, pools, qualified names."""

from __future__ import annotations

import re
from functools import lru_cache

from dray.api.caches import LONGEST, remember

LABEL_DETAIL = "a DNS label: at most 63 lower case letters, digits and '-', with a letter or digit at both ends"
SUBDOMAIN_DETAIL = (
    "a DNS subdomain: at most 253 lower case letters, digits, '-' and '.', with a letter or digit at both ends"
)
LABEL_KEY_DETAIL = (
    "a qualified name: an optional DNS subdomain and '/', then at most 63 letters, digits, '-', '_' and '.'"
)
LABEL_VALUE_DETAIL = "empty, or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
IDENTIFIER_DETAIL = "a C identifier: a letter or '_', then letters, digits and '_'"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Names of which it is remembered that all are qualified.
_MOST_TOGETHER = 64
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)

MAX_DRIVER = 63
MAX_POOL = 253
MAX_IDENTIFIER = 32


def size(text: str) -> int:
    """Returns the length in bytes, to which the limits apply."""
    return len(text) if text.isascii() else len(text.encode())


@remember(4096)
def is_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


@remember(4096)
def is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= 63 and _LABEL_NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return not text or (len(text) <= 63 and _LABEL_NAME.fullmatch(text) is not None)


def is_identifier(text: str) -> bool:
    return _IDENTIFIER.fullmatch(text) is not None


def are_qualified_names(texts: tuple[str, ...]) -> bool:
    """`identifier` or `driver/identifier`, the form of attribute and capacity names."""
    if len(texts) > _MOST_TOGETHER or any([len(text) > LONGEST for text in texts]):
        return all(_is_qualified_name(text) for text in texts)
    return _are_qualified_names(texts)


@lru_cache(maxsize=1024)
def _are_qualified_names(texts: tuple[str, ...]) -> bool:
    return all(_is_qualified_name(text) for text in texts)


def _is_qualified_name(text: str) -> bool:
    domain, slash, identifier = text.rpartition("/")
    if slash and not (len(domain) <= MAX_DRIVER and is_subdomain(domain.lower())):
        return False
    return len(identifier) <= MAX_IDENTIFIER and is_identifier(identifier)


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def is_path_segment(text: str) -> bool:
    """Returns True if the text can be a segment of a URL path."""
    return text not in (".", "..") and "/" not in text and "%" not in text


def is_extended_resource(text: str) -> bool:
    return not extended_resource_problems(text)


def extended_resource_problems(text: str) -> list[str]:
    """Returns why the name cannot be that of an extended resource."""
    found = []
    if "/" not in text:
        found.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in text:
        found.append('must not have "kubernetes.io/" domain')
    if text.startswith("requests."):
        found.append('must not have "requests." prefix')
    if not is_label_key("requests." + text):
        found.append(f"must be, with the prefix 'requests.', {LABEL_KEY_DETAIL}")
    return found


def generate_base(generate_name: str) -> str:
    """Returns the part of `generateName` that is used in a name; five random characters follow."""
    return generate_name[:58]
