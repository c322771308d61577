"""spec.dnsConfig of a pod: as much as a resolver reads."""

from __future__ import annotations

from ipaddress import ip_address

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.validation.fields import Errors

MAX_SERVERS = 3
MAX_SEARCHES = 32
MAX_LETTERS = 2048


def validate(config: Object | None, policy: str, path: str) -> Errors:
    servers = (config or {}).get("nameservers") or []
    if policy == "None":
        if config is None:
            yield errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield errors.required(f"{path}.nameservers", detail)
            return
    if config is None:
        return
    if len(servers) > MAX_SERVERS:
        yield errors.invalid(f"{path}.nameservers", servers, f"must not have more than {MAX_SERVERS} nameservers")
    for index, server in enumerate(servers):
        if not _is_address(server):
            yield errors.invalid(f"{path}.nameservers[{index}]", server, "must be a valid IP address")
    yield from _searches(config.get("searches") or [], f"{path}.searches")
    for index, option in enumerate(config.get("options") or []):
        if not option.get("name"):
            yield errors.required(f"{path}.options[{index}]", "must not be empty")


def _searches(searches: list[str], path: str) -> Errors:
    if len(searches) > MAX_SEARCHES:
        yield errors.invalid(path, searches, f"must not have more than {MAX_SEARCHES} search paths")
    if names.size(" ".join(searches)) > MAX_LETTERS:
        detail = f"must not have more than {MAX_LETTERS} characters (including spaces) in the search list"
        yield errors.invalid(path, searches, detail)
    for index, search in enumerate(searches):
        if search != "." and not names.is_subdomain(search.removesuffix(".").replace("_", "x")):
            yield errors.invalid(f"{path}[{index}]", search, names.SUBDOMAIN_DETAIL)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text
