"""Name servers of a pod: the resolv.conf that its `dnsPolicy` and `dnsConfig` ask for.

There is no DNS of the cluster, so ClusterFirst means the machine's own, as Default does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dray.api.objects import Object, mapping, mappings, spec_of
from dray.node.errors import SetupError

_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
# Address of systemd-resolved on this machine; `_BEHIND_STUB` lists the name servers behind it.
_STUB: Final = "127.0.0.53"
_BEHIND_STUB: Final = Path("/run/systemd/resolve/resolv.conf")


def resolv_conf(pod: Object, machine: str) -> str | None:
    """Returns the content of the pod's resolv.conf; None if it is the same as that of `machine`. Raises SetupError."""
    spec = spec_of(pod)
    config = mapping(spec.get("dnsConfig"))
    alone = spec.get("dnsPolicy") == "None"
    if not config and not alone:
        return None
    servers, searches, options = ([], [], {}) if alone else _parsed(machine)
    servers += map(str, config.get("nameservers") or ())
    searches += map(str, config.get("searches") or ())
    # An option of the pod replaces one of the machine with the same name.
    options |= dict(_options(mappings(config.get("options"))))
    lines = [f"nameserver {server}" for server in list(dict.fromkeys(servers))[:_MOST_SERVERS]]
    if searches:
        lines.append(" ".join(["search", *list(dict.fromkeys(searches))[:_MOST_SEARCHES]]))
    if options:
        lines.append(" ".join(["options", *(f"{name}:{value}" if value else name for name, value in options.items())]))
    return "\n".join(lines) + "\n"


def _options(given: list[Object]) -> Iterator[tuple[str, str]]:
    """Yields names and values of options.

    Raises SetupError for a line break, because Kubernetes allows any text and it would add lines to the file.
    """
    for index, option in enumerate(given):
        name, value = str(option.get("name") or ""), str(option.get("value") or "")
        if not (name + value).isprintable():
            problem = "it has a line break or another control character, which resolv.conf cannot hold; remove it"
            raise SetupError("CreateContainerConfigError", f"dnsConfig.options[{index}]: {problem}")
        yield name, value


def _parsed(text: str) -> tuple[list[str], list[str], dict[str, str]]:
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        word, *rest = line.split() or [""]
        if word == "nameserver":
            servers += rest[:1]
        elif word == "search":
            searches = rest
        elif word == "options":
            options |= {name: value for name, _, value in (option.partition(":") for option in rest)}
    return servers, searches, options


def machine_resolv_conf() -> str:
    """Returns a resolv.conf that also works in other networks than the machine's own; empty if there is none."""
    try:
        text = Path("/etc/resolv.conf").read_text()
        return _BEHIND_STUB.read_text() if _STUB in text and _BEHIND_STUB.exists() else text
    except OSError:
        return ""
