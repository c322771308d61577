"""Trust between the API server and the agent of a node, in both directions, by certificates of the cluster.

The server shows a certificate that it alone has; the agent shows one for the name of its node. `local_trust` is for
those who start both and have the authorities at hand. An agent of another machine brings the certificate of the
cluster's authority and a serving certificate that was issued for its name.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from dray.server.security.certificates import Credential, node_context
from dray.server.security.composition import Security


@dataclass(frozen=True, slots=True)
class NodeTrust:
    """`authority` is the certificate (PEM) that signs trusted clients; `serving` is the node's own certificate."""

    authority: bytes
    serving: Credential

    def context(self) -> ssl.SSLContext:
        return node_context(self.authority, self.serving)


def local_trust(security: Security, node: str, addresses: Iterable[str]) -> NodeTrust:
    serving = security.serving_authority.node_server(node, addresses)
    return NodeTrust(security.node_authority.certificate, serving)
