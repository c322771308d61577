"""X.509 certificates as Kubernetes uses them (a self-made authority, one for the server, one for each client), and TLS.

A client's certificate says who it is: common name = user, organizations = groups. All keys are ECDSA on P-256. The
purpose is written into a certificate, so that a server's cannot be used as a client's or the other way round, and the
authority's path length is zero, so that no certificate can issue another. Time is handed in.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dray.server.security.private_files import write_private

if TYPE_CHECKING:
    from dray.server.security.authority import Authority

Key: TypeAlias = ec.EllipticCurvePrivateKey

SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH

# Clocks of clients may be slow.
_BACKDATED = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def encode_key(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def decode_key(pem: bytes) -> Key:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("not an ECDSA key on P-256")  # noqa: TRY004
    return key


def encode_certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def subject(name: str, groups: Iterable[str] = ()) -> x509.Name:
    with warnings.catch_warnings():
        # X.520 allows 64 characters and node names have up to 253; only this server and OpenSSL read these.
        warnings.filterwarnings("ignore", "Attribute's length")
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group, _validate=False) for group in groups]
        return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)])


def alternative_names(names: Iterable[str]) -> x509.SubjectAlternativeName:
    """Returns host names and addresses without duplicates, in a fixed order."""
    return x509.SubjectAlternativeName([_general_name(name) for name in sorted(set(names))])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.lower())


def make_authority(key: Key, name: str, *, now: datetime, lifetime: timedelta) -> x509.Certificate:
    builder = _builder(subject(name), subject(name), key.public_key(), now, now + lifetime)
    return (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def issue(
    authority: x509.Certificate,
    authority_key: Key,
    name: x509.Name,
    purpose: x509.ObjectIdentifier,
    *,
    now: datetime,
    lifetime: timedelta,
    hosts: x509.SubjectAlternativeName | None = None,
) -> Credential:
    """Issues a certificate with a new key; it expires no later than its authority."""
    key = new_key()
    made = certify(authority, authority_key, key.public_key(), name, purpose, now=now, lifetime=lifetime, hosts=hosts)
    return Credential(made, encode_key(key))


def certify(
    authority: x509.Certificate,
    authority_key: Key,
    key: CertificatePublicKeyTypes,
    name: x509.Name,
    purpose: x509.ObjectIdentifier,
    *,
    now: datetime,
    lifetime: timedelta,
    hosts: x509.SubjectAlternativeName | None = None,
) -> bytes:
    """Issues a certificate (PEM) for a given public key."""
    end = min(now + lifetime, authority.not_valid_after_utc)
    builder = _builder(name, authority.subject, key, now, end)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(issuer, critical=False)
    )
    if hosts is not None:
        builder = builder.add_extension(hosts, critical=False)
    return encode_certificate(builder.sign(authority_key, hashes.SHA256()))


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _builder(
    name: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def server_context(authority: Authority, names: Iterable[str] = ()) -> ssl.SSLContext:
    """Returns the TLS context of the server, for which client certificates are optional.

    A certificate of another authority, an expired one or a server's ends the handshake.
    """
    context = _accepting(authority.certificate, ssl.CERT_OPTIONAL)
    context.set_alpn_protocols(["http/1.1"])
    renew(context, authority, names)
    return context


def node_context(authority: bytes, credential: Credential) -> ssl.SSLContext:
    """Returns the TLS context of a node's agent: clients need a certificate of the authority."""
    context = _accepting(authority, ssl.CERT_REQUIRED)
    load_credential(context, credential)
    return context


def _accepting(authority: bytes, verify: ssl.VerifyMode) -> ssl.SSLContext:
    """Returns a context without session resumption, which would skip the check of the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # TLS 1.2 resumes sessions from a cache that `ssl` cannot switch off.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = verify
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.num_tickets = 0
    context.load_verify_locations(cadata=authority.decode())
    return context


def renew(context: ssl.SSLContext, authority: Authority, names: Iterable[str] = ()) -> None:
    """Loads the server's present certificate into a context, for later handshakes. Call it once a day."""
    load_credential(context, authority.server(names))


def client_context(authority: bytes, credential: Credential | None = None) -> ssl.SSLContext:
    """Returns the TLS context of a client that trusts one authority, with its certificate, if any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority.decode())
    if credential is not None:
        load_credential(context, credential)
    return context


def load_credential(context: ssl.SSLContext, credential: Credential) -> None:
    """Loads a certificate and its key from a private temporary file, because `ssl` reads keys from files only."""
    with tempfile.TemporaryDirectory(prefix="dray-") as directory:
        path = Path(directory) / "credential.pem"
        write_private(path, credential.certificate + credential.key)
        context.load_cert_chain(path)
