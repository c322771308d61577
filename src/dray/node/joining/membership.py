"""Membership of a machine in a cluster, in a directory that only its owner may read.

    server          where the API server is
    ca.crt          the cluster's authority
    client.pem      the node's certificate as a client, and its key
    serving.pem     the one it shows to the API server, and its key
    joining.key     the key of the first request, until it has a certificate: the name of a node is given to one key

Keys are made on the machine and never leave it; the token it joined with is not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from dray.api.certificate_requests import NODE_PREFIX
from dray.client.endpoint import Endpoint
from dray.node.errors import NodeError
from dray.server.security.authority import AuthorityError, load_key
from dray.server.security.certificates import Credential, Key
from dray.server.security.private_files import private_directory, read_private, write_private

CLIENT: Final = "client.pem"
SERVING: Final = "serving.pem"
_SERVER: Final = "server"
_AUTHORITY: Final = "ca.crt"
_JOINING: Final = "joining.key"
_KEY: Final = b"-----BEGIN PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class Membership:
    directory: Path
    node: str

    def exists(self) -> bool:
        return (self.directory / CLIENT).exists()

    def endpoint(self) -> Endpoint:
        """Returns server, authority and certificate; raises NodeError if a file is missing or of another node."""
        credential = self.credential(CLIENT)
        if credential is None:
            raise NodeError(f"{self.directory / CLIENT} is missing: join with --join, --token and --ca-hash")
        found = common_name(credential)
        if found != NODE_PREFIX + self.node:
            raise NodeError(
                f"{self.directory / CLIENT} is the certificate of {found}, not of node {self.node}: "
                f"use another --root, or --node-name {found.removeprefix(NODE_PREFIX)}"
            )
        _, end = lifetime(credential)
        if datetime.now(UTC) >= end:
            raise NodeError(
                f"the certificate of node {self.node} ended at {end}: delete {self.directory} and join again"
            )
        return Endpoint(self.server(), ca=self.authority(), certificate=credential.certificate, key=credential.key)

    def server(self) -> str:
        return self._read(_SERVER).decode().strip()

    def authority(self) -> bytes:
        return self._read(_AUTHORITY)

    def credential(self, name: str) -> Credential | None:
        content = read_private(self.directory / name)
        if content is None:
            return None
        certificate, marker, key = content.partition(_KEY)
        if not certificate or not marker:
            raise NodeError(f"{self.directory / name} is not a certificate with its key: delete it, and join again")
        return Credential(certificate, marker + key)

    def found(self, server: str, authority: bytes, client: Credential) -> None:
        """Saves what a machine needs after joining; the certificate last, so a partial membership is never used."""
        with private_directory(self.directory):
            write_private(self.directory / _SERVER, server.encode() + b"\n")
            write_private(self.directory / _AUTHORITY, authority)
            self.keep(CLIENT, client)
            (self.directory / _JOINING).unlink(missing_ok=True)

    def joining_key(self) -> Key:
        """Returns the saved key of the first request, so that an interrupted machine asks again with the same key."""
        with private_directory(self.directory):
            try:
                return load_key(self.directory / _JOINING)
            except AuthorityError as error:
                raise NodeError(f"{error}") from error

    def keep(self, name: str, credential: Credential) -> None:
        write_private(self.directory / name, credential.certificate + credential.key)

    def move(self, server: str) -> None:
        """Saves the new address of the server."""
        write_private(self.directory / _SERVER, server.encode() + b"\n")

    def _read(self, name: str) -> bytes:
        content = read_private(self.directory / name)
        if content is None:
            raise NodeError(f"{self.directory / name} is missing: delete {self.directory}, and join again")
        return content


def common_name(credential: Credential) -> str:
    return str(_certificate(credential).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def lifetime(credential: Credential) -> tuple[datetime, datetime]:
    certificate = _certificate(credential)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _certificate(credential: Credential) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(credential.certificate)
    except ValueError as error:
        raise NodeError(f"a certificate of this node cannot be read: {error}") from error
