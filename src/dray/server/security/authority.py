"""The certificate authority of one server, and what it issues.

With a directory, the authority is made at the first start and read at every later one; without, it lives in memory and
dies with the process. Its certificate is renewed with the same key while it still has a year to live, so certificates
issued before stay good. The server's certificate is kept too, and made anew when it comes to its last third, when the
names it must answer to have changed, or when the authority has.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from dray.server.authorization import MASTERS
from dray.server.security import certificates
from dray.server.security.certificates import CLIENT, SERVER, Credential, Key
from dray.server.security.private_files import private_directory, read_private, write_private

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVER_LIFETIME = timedelta(days=365)
CLIENT_LIFETIME = timedelta(days=365)
_RENEW_AUTHORITY = timedelta(days=366)
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
CLUSTER = "dray"
KUBELET_SERVING = "dray-kubelet-serving"
"""Names of authorities: the cluster's, and the one for serving certificates of nodes."""

Clock = Callable[[], datetime]


class AuthorityError(Exception):
    """Raised if the files of an authority cannot be used."""


def utc_now() -> datetime:
    return datetime.now(UTC)


def local_names() -> tuple[str, ...]:
    """Returns the names of this machine that every server certificate includes."""
    return ("localhost", "127.0.0.1", "::1", socket.gethostname(), "kubernetes", "kubernetes.default.svc")


class Authority:
    """Issues certificates; `certificate` (PEM) is the one that clients must trust."""

    def __init__(
        self, key: Key, authority: x509.Certificate, *, directory: Path | None = None, clock: Clock = utc_now
    ) -> None:
        self._key = key
        self._authority = authority
        self._directory = directory
        self._clock = clock
        self._server: Credential | None = None
        self.server_names: frozenset[str] = frozenset()
        """Names of the server, which no node may have."""

    @classmethod
    def ephemeral(cls, *, name: str = CLUSTER, clock: Clock = utc_now) -> Authority:
        """Makes an authority in memory."""
        key = certificates.new_key()
        return cls(key, _make(key, name, clock), clock=clock)

    @classmethod
    def open(cls, directory: Path, *, name: str = CLUSTER, clock: Clock = utc_now) -> Authority:
        """Opens the authority in a directory; makes one if there is none."""
        with private_directory(directory):
            key = load_key(directory / "ca.key")
            authority = _load_certificate(directory / "ca.crt")
            if authority is not None and authority.public_key() != key.public_key():
                raise AuthorityError(f"{directory}/ca.crt does not belong to ca.key: restore both or delete both")
            if authority is None or authority.not_valid_after_utc - clock() < _RENEW_AUTHORITY:
                authority = _make(key, name, clock)
                write_private(directory / "ca.crt", certificates.encode_certificate(authority))
        return cls(key, authority, directory=directory, clock=clock)

    @property
    def certificate(self) -> bytes:
        return certificates.encode_certificate(self._authority)

    def server(self, names: Iterable[str] = ()) -> Credential:
        """Returns the server's certificate for this machine's names and the given ones; renewed if necessary."""
        own = (*local_names(), *names)
        self.server_names = frozenset(name.lower() for name in own)
        wanted = certificates.alternative_names(own)
        if self._directory is None:
            self._server = self._kept_or_new(self._server, wanted)
            return self._server
        with private_directory(self._directory):
            kept = _load_credential(self._directory)
            credential = self._kept_or_new(kept, wanted)
            if credential is not kept:
                # The key is written first: a certificate without its key would look complete.
                write_private(self._directory / "server.key", credential.key)
                write_private(self._directory / "server.crt", credential.certificate)
        return credential

    def client(self, user: str, groups: Iterable[str] = (), *, lifetime: timedelta = CLIENT_LIFETIME) -> Credential:
        if not user:
            raise ValueError("a client certificate needs a user")
        name = certificates.subject(user, groups)
        return certificates.issue(self._authority, self._key, name, CLIENT, now=self._clock(), lifetime=lifetime)

    def admin(self) -> Credential:
        return self.client("kubernetes-admin", (MASTERS,))

    def node(self, name: str) -> Credential:
        return self.client(f"system:node:{name}", ("system:nodes",))

    def kubelet_client(self) -> Credential:
        """Issues the certificate that the server shows to the agents of nodes. Only the server has it."""
        return self.client(KUBELET_CLIENT)

    def node_server(self, name: str, addresses: Iterable[str] = ()) -> Credential:
        """Issues the serving certificate of a node for its name and addresses."""
        hosts = certificates.alternative_names((name, *addresses))
        subject = certificates.subject(f"system:node:{name}", ("system:nodes",))
        now = self._clock()
        return certificates.issue(
            self._authority, self._key, subject, SERVER, now=now, lifetime=SERVER_LIFETIME, hosts=hosts
        )

    def certify(
        self,
        key: CertificatePublicKeyTypes,
        user: str,
        groups: Iterable[str],
        purpose: x509.ObjectIdentifier,
        *,
        lifetime: timedelta,
        hosts: Iterable[str] = (),
    ) -> bytes:
        """Issues a certificate (PEM) for the public key of a client."""
        names = tuple(hosts)
        return certificates.certify(
            self._authority,
            self._key,
            key,
            certificates.subject(user, groups),
            purpose,
            now=self._clock(),
            lifetime=lifetime,
            hosts=certificates.alternative_names(names) if names else None,
        )

    def scheduler(self) -> Credential:
        return self.client("system:kube-scheduler")

    def controllers(self) -> Credential:
        return self.client("system:kube-controller-manager")

    def _kept_or_new(self, kept: Credential | None, wanted: x509.SubjectAlternativeName) -> Credential:
        if kept is not None and self._still_good(kept, wanted):
            return kept
        name = certificates.subject("dray-apiserver")
        now = self._clock()
        return certificates.issue(
            self._authority, self._key, name, SERVER, now=now, lifetime=SERVER_LIFETIME, hosts=wanted
        )

    def _still_good(self, credential: Credential, wanted: x509.SubjectAlternativeName) -> bool:
        try:
            certificate = x509.load_pem_x509_certificate(credential.certificate)
            key = certificates.decode_key(credential.key)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, x509.ExtensionNotFound):
            return False
        return (
            certificate.public_key() == key.public_key()
            and certificates.is_issued_by(certificate, self._authority)
            and names == wanted
            and certificate.not_valid_after_utc - self._clock() > SERVER_LIFETIME / 3
        )


def load_key(path: Path) -> Key:
    """Returns the key in a file; makes one if there is none. The caller must hold the lock of the directory."""
    pem = read_private(path)
    if pem is None:
        key = certificates.new_key()
        write_private(path, certificates.encode_key(key))
        return key
    try:
        return certificates.decode_key(pem)
    except ValueError as error:
        raise AuthorityError(f"{path} is not a key: restore it, or delete it to get a new one") from error


def _make(key: Key, name: str, clock: Clock) -> x509.Certificate:
    return certificates.make_authority(key, name, now=clock(), lifetime=AUTHORITY_LIFETIME)


def _load_certificate(path: Path) -> x509.Certificate | None:
    pem = read_private(path)
    if pem is None:
        return None
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise AuthorityError(f"{path} is not a certificate: restore it, or delete it to get a new one") from error


def _load_credential(directory: Path) -> Credential | None:
    certificate, key = read_private(directory / "server.crt"), read_private(directory / "server.key")
    return Credential(certificate, key) if certificate is not None and key is not None else None
