"""Protection against DNS rebinding: a page that is served over HTTP answers only to names of this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from dray.web.exchanges import Refusal


def check_loopback(host: str) -> None:
    """Raises Refusal unless the Host header names this machine: another name may be one that an attacker controls."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        here = name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        here = False
    if not here:
        raise Refusal(403, "the Host header does not name this machine; open the page as http://127.0.0.1")
