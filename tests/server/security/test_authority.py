from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from dray.server.security import certificates
from dray.server.security.authority import SERVER_LIFETIME, Authority, AuthorityError, local_names
from dray.server.security.private_files import ExposedFileError, write_private

from .cluster import Clock


def read(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_the_authority_is_kept_and_private(directory: Path) -> None:
    first = Authority.open(directory)
    first.server()
    assert Authority.open(directory).certificate == first.certificate
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert files == dict.fromkeys(("ca.key", "ca.crt", "server.key", "server.crt"), 0o600)


def test_the_mode_does_not_depend_on_the_umask(directory: Path) -> None:
    before = os.umask(0)
    try:
        Authority.open(directory)
    finally:
        os.umask(before)
    assert stat.S_IMODE((directory / "ca.key").stat().st_mode) == 0o600


def test_a_key_that_others_can_read_is_refused(directory: Path) -> None:
    Authority.open(directory)
    (directory / "ca.key").chmod(0o644)
    with pytest.raises(ExposedFileError, match="chmod 600"):
        Authority.open(directory)


def test_a_key_that_is_none_is_refused(directory: Path) -> None:
    Authority.open(directory)
    write_private(directory / "ca.key", b"rubbish")
    with pytest.raises(AuthorityError, match=r"ca\.key"):
        Authority.open(directory)


def test_a_certificate_of_another_key_is_refused(directory: Path, tmp_path: Path) -> None:
    Authority.open(directory)
    Authority.open(tmp_path / "other")
    write_private(directory / "ca.crt", (tmp_path / "other" / "ca.crt").read_bytes())
    with pytest.raises(AuthorityError, match="does not belong"):
        Authority.open(directory)


def test_a_lost_certificate_is_made_anew_with_the_same_key(directory: Path) -> None:
    authority = Authority.open(directory)
    (directory / "ca.crt").unlink()
    client = authority.client("jane")
    renewed = read(Authority.open(directory).certificate)
    assert certificates.is_issued_by(read(client.certificate), renewed)


def test_the_authority_is_renewed_before_it_ends(directory: Path, clock: Clock) -> None:
    first = Authority.open(directory, clock=clock)
    client = first.client("jane", lifetime=timedelta(days=3650))
    clock.advance(days=3650 - 300)
    second = Authority.open(directory, clock=clock)
    assert read(second.certificate).not_valid_after_utc > read(first.certificate).not_valid_after_utc
    assert certificates.is_issued_by(read(client.certificate), read(second.certificate))


def test_the_server_certificate_carries_local_and_given_names() -> None:
    certificate = read(Authority.ephemeral().server(["gpu-box.example.com", "192.0.2.7"]).certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = set(names.get_values_for_type(x509.DNSName))
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert {"localhost", "gpu-box.example.com"} <= hosts
    assert {"127.0.0.1", "::1", "192.0.2.7"} <= addresses
    assert {name.lower() for name in local_names()} <= hosts | addresses


def test_the_server_certificate_is_kept_until_something_changes(directory: Path, clock: Clock) -> None:
    authority = Authority.open(directory, clock=clock)
    first = authority.server(["a.example.com"])
    assert Authority.open(directory, clock=clock).server(["a.example.com"]) == first
    assert authority.server(["b.example.com"]) != first
    second = authority.server(["a.example.com"])
    clock.advance(days=SERVER_LIFETIME.days * 0.7)
    assert authority.server(["a.example.com"]) != second


def test_a_server_certificate_of_another_authority_is_replaced(directory: Path, tmp_path: Path) -> None:
    authority = Authority.open(directory)
    authority.server()
    other = Authority.open(tmp_path / "other").server()
    write_private(directory / "server.key", other.key)
    write_private(directory / "server.crt", other.certificate)
    certificate = read(authority.server().certificate)
    assert certificates.is_issued_by(certificate, read(authority.certificate))


@pytest.mark.parametrize("broken", ["server.key", "server.crt"])
def test_a_broken_server_certificate_is_replaced(directory: Path, broken: str) -> None:
    authority = Authority.open(directory)
    first = authority.server()
    write_private(directory / broken, b"rubbish")
    second = authority.server()
    assert second != first
    assert read(second.certificate).public_key() == certificates.decode_key(second.key).public_key()


def test_a_client_certificate_says_who_it_is_and_no_more() -> None:
    authority = Authority.ephemeral()
    certificate = read(authority.node("n1").certificate)
    assert certificate.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [certificates.CLIENT]


def test_no_certificate_outlives_its_authority(clock: Clock) -> None:
    authority = Authority.ephemeral(clock=clock)
    client = read(authority.client("jane", lifetime=timedelta(days=99999)).certificate)
    assert client.not_valid_after_utc <= read(authority.certificate).not_valid_after_utc


def test_keys_do_not_show_in_a_repr() -> None:
    assert b"PRIVATE KEY" in Authority.ephemeral().admin().key
    assert "PRIVATE KEY" not in repr(Authority.ephemeral().admin())


def test_an_interrupted_write_leaves_the_old_file(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Authority.open(directory)
    before = (directory / "ca.key").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_private(directory / "ca.key", b"half")
    assert (directory / "ca.key").read_bytes() == before
    assert sorted(path.name for path in directory.iterdir()) == ["ca.crt", "ca.key"]
