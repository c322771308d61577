"""Names and addresses of a pod: its host name, aliases of hosts, name servers and search paths.

A node writes them to /etc/hosts and resolv.conf of the pod, a line each. A name with a line break would add any line.
"""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mappings, strings
from dray.api.validation import addresses, fields
from dray.api.validation.fields import Errors

_DNS_POLICIES = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]
_MAX_HOSTNAME = 64
MAX_SERVERS = 3
MAX_SEARCHES = 32
MAX_LETTERS = 2048


def validate(spec: Object, path: str) -> Errors:
    for member in ("hostname", "subdomain"):
        if spec.get(member):
            yield from fields.label(spec[member], f"{path}.{member}")
    if spec.get("hostnameOverride") is not None:
        yield from _hostname_override(spec, f"{path}.hostnameOverride")
    if spec.get("hostAliases"):
        yield from _host_aliases(mappings(spec["hostAliases"]), f"{path}.hostAliases")
    yield from fields.enum(spec.get("dnsPolicy"), _DNS_POLICIES, f"{path}.dnsPolicy", required=True)
    if spec.get("dnsConfig") is not None or spec.get("dnsPolicy") == "None":
        yield from _dns_config(spec.get("dnsConfig"), spec["dnsPolicy"], f"{path}.dnsConfig")


def _hostname_override(spec: Object, path: str) -> Errors:
    name = str(spec["hostnameOverride"])
    for member in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(member):
            yield errors.forbidden(path, f"may not be specified when {member} is true")
    if names.size(name) > _MAX_HOSTNAME:
        yield errors.too_long(path, _MAX_HOSTNAME)
    yield from fields.subdomain(name, path)


def _host_aliases(aliases: list[Object], path: str) -> Errors:
    for index, alias in enumerate(aliases):
        yield from addresses.ip(str(alias.get("ip") or ""), f"{path}[{index}].ip")
        for number, name in enumerate(strings(alias.get("hostnames"))):
            yield from fields.subdomain(name, f"{path}[{index}].hostnames[{number}]")


def _dns_config(config: Object | None, policy: str, path: str) -> Errors:
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
        yield from addresses.ip(server, f"{path}.nameservers[{index}]")
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
