"""Joining: from an invitation, which is a server's address, a token and the hash of its authority, to a membership.

The server is believed once its authority has that hash; the token is sent after that, to that server alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.client import cluster_info
from dray.client.api import ApiClient
from dray.client.cluster_info import ClusterInfo
from dray.client.endpoint import Endpoint
from dray.client.errors import ApiError, ConfigError
from dray.client.http import HttpTransport
from dray.node.errors import NodeError
from dray.node.joining import requests
from dray.node.joining.membership import Membership


@dataclass(frozen=True, slots=True)
class Invitation:
    server: str
    token: str = field(repr=False)
    authority_hash: str


async def join(invitation: Invitation, membership: Membership) -> None:
    """Gets the authority and the node's certificates, and saves them. Raises NodeError or ClientError."""
    info = await _discover(invitation)
    endpoint = Endpoint(invitation.server, ca=info.authority, token=invitation.token)
    async with ApiClient(HttpTransport(endpoint)) as client:
        try:
            credential = await requests.client_certificate(client, membership.node, membership.joining_key())
        except ApiError as error:
            if error.status == 401:
                raise NodeError(
                    "the server does not know the token, or it has expired: create another with dray join-token"
                ) from None
            raise
    membership.found(invitation.server, info.authority, credential)


async def _discover(invitation: Invitation) -> ClusterInfo:
    if not invitation.server.startswith("https:"):
        raise ConfigError(f"a machine joins over https, not with {invitation.server}")
    async with ApiClient(HttpTransport(Endpoint(invitation.server, insecure=True))) as client:
        info = cluster_info.read(await client.request("GET", cluster_info.PATH))
    cluster_info.check(info, invitation.authority_hash)
    return info
