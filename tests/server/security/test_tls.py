"""Real handshakes with a real uvicorn on loopback."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dray.server.authorization import ADMIN
from dray.server.security import certificates
from dray.server.security.authority import Authority
from dray.server.security.certificates import client_context, renew, server_context
from dray.server.security.composition import Security

from .cluster import Clock, Cluster
from .serving import ask, serve

REFUSED = (ssl.SSLError, ConnectionError, http.client.HTTPException)


@pytest.fixture(scope="module")
def security() -> Security:
    return Security.ephemeral(Cluster())


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def port(security: Security, request: pytest.FixtureRequest) -> Iterator[int]:
    with serve(security.guard, security.server_context(), loop=request.param) as port:
        yield port


def authority_of(security: Security) -> Authority:
    assert security.authority is not None
    return security.authority


def test_a_client_certificate_is_the_user(security: Security, port: int) -> None:
    authority = authority_of(security)
    context = client_context(authority.certificate, authority.node("n1"))
    code, answer = ask(port, context)
    assert (code, answer["username"]) == (200, "system:node:n1")
    assert answer["groups"] == ["system:nodes", "system:authenticated"]
    assert answer["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_names_longer_than_x520_allows(security: Security, port: int) -> None:
    authority = authority_of(security)
    name = "n" * 253
    _, answer = ask(port, client_context(authority.certificate, authority.node(name)))
    assert answer["username"] == f"system:node:{name}"


def test_the_admin_token_is_the_admin(security: Security, port: int) -> None:
    context = client_context(authority_of(security).certificate)
    code, answer = ask(port, context, headers={"Authorization": f"Bearer {security.admin_token}"})
    assert (code, answer["username"], answer["groups"]) == (200, ADMIN.name, list(ADMIN.groups))


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "Basic YWRtaW46YWRtaW4=", "Bearer a b", "nonsense"])
def test_wrong_credentials_are_refused_everywhere(security: Security, port: int, header: str) -> None:
    context = client_context(authority_of(security).certificate)
    assert ask(port, context, headers={"Authorization": header})[0] == 401
    assert ask(port, context, "/healthz", headers={"Authorization": header})[0] == 401


def test_headers_of_a_front_proxy_make_nobody(security: Security, port: int) -> None:
    authority = authority_of(security)
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters", "X-Remote-Uid": "0"}
    assert ask(port, client_context(authority.certificate), headers=headers)[0] == 401
    context = client_context(authority.certificate, authority.client("front-proxy-client"))
    code, answer = ask(port, context, headers=headers)
    assert (code, answer["username"], answer["groups"]) == (200, "front-proxy-client", ["system:authenticated"])


def test_without_credentials_only_health_is_open(security: Security, port: int) -> None:
    context = client_context(authority_of(security).certificate)
    assert ask(port, context)[0] == 401
    assert ask(port, context, "/version")[0] == 401
    assert ask(port, context, "/livez")[1]["username"] == "system:anonymous"


def test_a_certificate_of_another_authority_ends_the_handshake(security: Security, port: int) -> None:
    other = Authority.ephemeral().client("jane", ["system:masters"])
    with pytest.raises(REFUSED):
        ask(port, client_context(authority_of(security).certificate, other))


def test_a_forged_authority_of_the_same_name_does_not_help(security: Security, port: int) -> None:
    # Same subject and issuer name, another key.
    key = certificates.new_key()
    now = datetime.now(UTC)
    fake = certificates.make_authority(key, "dray", now=now, lifetime=timedelta(days=1))
    name = certificates.subject("root", ["system:masters"])
    forged = certificates.issue(fake, key, name, certificates.CLIENT, now=now, lifetime=timedelta(hours=1))
    with pytest.raises(REFUSED):
        ask(port, client_context(authority_of(security).certificate, forged))


def test_an_expired_certificate_ends_the_handshake(security: Security, port: int) -> None:
    authority = authority_of(security)
    expired = authority.client("jane", lifetime=timedelta(seconds=-1))
    with pytest.raises(REFUSED):
        ask(port, client_context(authority.certificate, expired))


def test_a_server_certificate_is_no_client_certificate(security: Security, port: int) -> None:
    authority = authority_of(security)
    with pytest.raises(REFUSED):
        ask(port, client_context(authority.certificate, authority.server()))


def test_a_client_certificate_cannot_issue_another(security: Security, port: int) -> None:
    authority = authority_of(security)
    jane = authority.client("jane")
    now = datetime.now(UTC)
    issuer = certificates.x509.load_pem_x509_certificate(jane.certificate)
    key = certificates.decode_key(jane.key)
    root = certificates.subject("root", ["system:masters"])
    leaf = certificates.issue(issuer, key, root, certificates.CLIENT, now=now, lifetime=timedelta(hours=1))
    chain = certificates.Credential(leaf.certificate + jane.certificate, leaf.key)
    with pytest.raises(REFUSED):
        ask(port, client_context(authority.certificate, chain))


def test_a_connection_does_not_outlive_its_certificate(clock: Clock) -> None:
    security = Security.ephemeral(Cluster(), clock=clock)
    authority = authority_of(security)
    context = client_context(authority.certificate, authority.client("jane", lifetime=timedelta(hours=1)))
    with serve(security.guard, security.server_context()) as port:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        codes = []
        for _ in range(2):
            connection.request("GET", "/api/v1/pods")
            response = connection.getresponse()
            response.read()
            codes.append(response.status)
            clock.advance(hours=2)
        connection.close()
    assert codes == [200, 401]


def test_sessions_are_not_resumed(security: Security, port: int) -> None:
    authority = authority_of(security)
    context = client_context(authority.certificate, authority.client("jane"))

    def connect(session: ssl.SSLSession | None) -> tuple[bool, ssl.SSLSession | None]:
        raw = socket.create_connection(("127.0.0.1", port), timeout=30)
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as connection:
            # Tickets come after the handshake, with the first answer at the latest.
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            return bool(connection.session_reused), connection.session

    _, session = connect(None)
    assert session is None or not session.has_ticket
    assert not connect(session)[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
def test_old_versions_of_tls_are_refused(security: Security, port: int, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", port)) as raw, pytest.raises(REFUSED):
        context.wrap_socket(raw)


def test_the_certificate_of_a_running_server_can_be_renewed() -> None:
    authority = Authority.ephemeral()
    context = server_context(authority)
    security = Security.ephemeral(Cluster())
    with serve(security.guard, context) as port:
        before = ssl.get_server_certificate(("127.0.0.1", port))
        renew(context, authority, ["new.example.com"])
        assert ssl.get_server_certificate(("127.0.0.1", port)) != before
        assert ask(port, client_context(authority.certificate), "/livez")[0] == 200


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        b"Impersonate-User: a\r\nImpersonate-User: b\r\n",
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Authorization : Bearer x\r\n",
        b"Impersonate-Group: system:masters\r\n",
        b"Impersonate-User:\r\nImpersonate-Group: system:masters\r\n",
    ],
)
def test_smuggled_headers_are_refused(security: Security, port: int, smuggled: bytes) -> None:
    authority = authority_of(security)
    context = client_context(authority.certificate, authority.admin())
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost") as raw:
        raw.settimeout(5)
        raw.sendall(b"GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\n" + smuggled + b"\r\n")
        time.sleep(0.05)
        assert raw.recv(4096).startswith(b"HTTP/1.1 400")
