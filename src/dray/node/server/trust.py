"""Trust between the API server and the agent of a node, in both directions, by certificates of one authority.

The server shows a certificate that it alone has; the agent shows one for the name of its node. `local_trust` is for
those who start both and have the authority at hand. An agent of another machine brings the authority's certificate and
a serving certificate that was issued for its name.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from dray.server.security.authority import Authority
from dray.server.security.certificates import Credential, node_context


@dataclass(frozen=True, slots=True)
class NodeTrust:
    """`authority` is the certificate, as PEM, of whom the node trusts; `serving` is what it shows."""

    authority: bytes
    serving: Credential

    def context(self) -> ssl.SSLContext:
        return node_context(self.authority, self.serving)


def local_trust(authority: Authority, node: str, addresses: Iterable[str]) -> NodeTrust:
    return NodeTrust(authority.certificate, authority.node_server(node, addresses))
