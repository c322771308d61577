import asyncio
import socket
import ssl

import pytest

from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.errors import ApiError, ConfigError, ConnectionFailed
from dray.client.http import HttpTransport
from dray.client.interface import GroupVersionResource
from dray.client.transport import Request
from tests.server.api import MAPS
from tests.server.process import listening

from .certificates import Authority
from .scripted import Say, Script, Stream, serving

NODES = GroupVersionResource("", "v1", "nodes")


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def server_side(authority, tmp_path):
    """A server that asks for a client certificate."""
    certificate, key = authority.issue("api.example.com")
    (tmp_path / "server.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate.decode())
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def ask(endpoint, script):
    async with ApiClient(HttpTransport(endpoint), retries=script.retries) as client:
        return await client.get(NODES, "n")


async def test_an_authority_of_ones_own_is_trusted(authority, server_side):
    script = Script(Say({"ok": 1}))
    async with serving(script, ssl=server_side) as address:
        assert await ask(Endpoint(address, ca=authority.certificate, token="secret"), script) == {"ok": 1}
    assert script.heard[0].headers["authorization"] == "Bearer secret"


async def test_strangers_are_not_trusted_and_not_asked_twice(server_side):
    script = Script(Say({"ok": 1}))
    async with serving(script, ssl=server_side) as address:
        with pytest.raises(ConfigError, match="certificate verify failed"):
            await ask(Endpoint(address, ca=Authority().certificate), script)
        assert (script.heard, script.slept) == ([], [])
        assert await ask(Endpoint(address, insecure=True), script) == {"ok": 1}


async def test_the_name_to_expect_can_be_told(authority, server_side):
    script = Script(Say({"ok": 1}))
    async with serving(script, ssl=server_side) as address:
        other = address.replace("127.0.0.1", "localhost")
        with pytest.raises(ConfigError):
            await ask(Endpoint(other, ca=authority.certificate), script)
        named = Endpoint(other, ca=authority.certificate, tls_server_name="api.example.com")
        assert await ask(named, script) == {"ok": 1}


async def test_client_certificates_are_shown(authority, server_side):
    server_side.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.issue("somebody")
    script = Script(Say({"ok": 1}))
    async with serving(script, ssl=server_side) as address:
        with pytest.raises(ConnectionFailed):
            await ask(Endpoint(address, ca=authority.certificate), script)
        known = Endpoint(address, ca=authority.certificate, certificate=certificate, key=key)
        assert await ask(known, script) == {"ok": 1}


@pytest.mark.parametrize("part", ["ca", "certificate"])
def test_unusable_certificates_are_named(authority, part):
    certificate, key = authority.issue("somebody")
    values = {"ca": authority.certificate, "certificate": certificate, "key": key, part: b"no certificate"}
    with pytest.raises(ConfigError, match="cannot be used"):
        HttpTransport(Endpoint("https://127.0.0.1:1", **values))


async def test_a_server_that_is_not_there_may_be_asked_again():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    script = Script()
    async with ApiClient(HttpTransport(Endpoint(f"http://127.0.0.1:{port}")), retries=script.retries) as client:
        with pytest.raises(ConnectionFailed) as failed:
            await client.create(NODES, {})
    assert not failed.value.sent
    assert len(script.slept) == 5


async def test_a_server_that_does_not_answer_is_given_up():
    script = Script(Stream([], "hang"))
    async with serving(script) as address:
        transport = HttpTransport(Endpoint(address), timeout=0.1)
        with pytest.raises(ConnectionFailed):
            await transport.send(Request("GET", "/"))
        await transport.close()


async def test_a_silent_stream_is_broken():
    script = Script(Stream([b"one\n"], "hang"))
    async with serving(script) as address:
        transport = HttpTransport(Endpoint(address))
        stream = await transport.stream(Request("GET", "/", silence=0.1))
        pieces = aiter(stream)
        assert await anext(pieces) == b"one\n"
        with pytest.raises(ConnectionFailed):
            await anext(pieces)
        await stream.close()
        await transport.close()


async def test_streams_do_not_keep_requests_waiting():
    script = Script(*[Stream([b"x"], "hang")] * 5, Say({"ok": 1}))
    async with serving(script) as address:
        transport = HttpTransport(Endpoint(address), connections=1)
        streams = [await transport.stream(Request("GET", "/")) for _ in range(5)]
        answer = await asyncio.wait_for(transport.send(Request("GET", "/")), 30)
        assert answer.body == b'{"ok":1}'
        for stream in streams:
            await stream.close()
        await transport.close()


async def test_redirects_do_not_carry_credentials_away():
    elsewhere = Script(Say({}))
    async with serving(elsewhere) as other:
        script = Script(Say(status=307, headers={"location": f"{other}/stolen"}, raw=b""))
        async with serving(script) as address:
            with pytest.raises(ApiError) as refused:
                await ask(Endpoint(address, token="secret"), script)
    assert refused.value.status == 307
    assert elsewhere.heard == []


async def test_a_server_below_a_path():
    script = Script(Say({}))
    async with serving(script) as address:
        await ask(Endpoint(f"{address}/k8s/clusters/c1/"), script)
    assert script.heard[0].path == "/k8s/clusters/c1/api/v1/nodes/n"


async def test_a_refused_token_is_read_again(tmp_path):
    (tmp_path / "token").write_text("old\n")
    script = Script(Say({}), Say({}, 401), Say({}))
    async with serving(script) as address:
        endpoint = Endpoint(address, token_file=tmp_path / "token")
        async with ApiClient(HttpTransport(endpoint), retries=script.retries) as client:
            await client.get(NODES, "n")
            (tmp_path / "token").write_text("new\n")
            with pytest.raises(ApiError):
                await client.get(NODES, "n")
            await client.get(NODES, "n")
    assert [heard.headers["authorization"] for heard in script.heard] == ["Bearer old", "Bearer old", "Bearer new"]


async def test_every_warning_is_kept():
    with listening() as server:
        transport = HttpTransport(Endpoint(server.url))
        body = b'{"metadata":{"name":"m"},"one":1,"two":2}'
        answer = await transport.send(Request("POST", MAPS, {}, {"content-type": "application/json"}, body))
        await transport.close()
    assert (answer.status, answer.headers["warning"].count("unknown field")) == (201, 2)
