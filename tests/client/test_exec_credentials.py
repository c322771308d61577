"""Programs that fetch credentials, as kubeconfigs of cloud providers name them."""

import asyncio
import base64
import json
import time
from datetime import UTC, datetime

import pytest

from dray.client.api import ApiClient
from dray.client.endpoint import Credentials, Endpoint
from dray.client.errors import ConfigError, ConnectionFailed
from dray.client.exec_credentials import ExecConfig, fetch
from dray.client.http import HttpTransport
from dray.client.interface import GroupVersionResource
from dray.client.kubeconfig import Kubeconfig

from .certificates import Authority
from .scripted import Say, Script, serving

NODES = GroupVersionResource("", "v1", "nodes")
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def script(tmp_path):
    """Makes a program of shell commands, which are told the ExecCredential in $KUBERNETES_EXEC_INFO."""

    def make(*commands, **more):
        path = tmp_path / "program"
        path.write_text("\n".join(["#!/bin/sh", *commands, ""]))
        path.chmod(0o755)
        return ExecConfig(user="me", command=str(path), **more)

    return make


def printing(version=V1, **status):
    document = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"cat <<'EOF'\n{document}\nEOF"


def stamp(seconds):
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def test_a_token_and_what_the_program_is_told(script, tmp_path):
    told = tmp_path / "told"
    program = script(
        f'printf "%s\\n" "$KUBERNETES_EXEC_INFO" "$COLOUR" "$1" > {told}',
        printing(token="secret", expirationTimestamp="2030-01-02T03:04:05Z"),
        arguments=("get-token",),
        environment={"COLOUR": "red"},
        cluster={"server": "https://one"},
    )
    fetched = await fetch(program)
    assert (fetched.token, fetched.expires) == ("secret", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
    info, colour, argument = told.read_text().splitlines()
    assert (colour, argument) == ("red", "get-token")
    assert json.loads(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://one"}},
    }
    assert "secret" not in repr(fetched)


async def test_nothing_is_there_to_read_where_nobody_can_be_asked(script):
    program = script("read line && exit 7", printing(token="t"), interactive="Never")
    assert (await fetch(program)).token == "t"


@pytest.mark.parametrize(
    ("commands", "more", "message"),
    [
        (["exit 3"], {}, "'.*program', which ended with status 3"),
        (["echo no"], {}, "does not print JSON"),
        (["echo []"], {}, "does not print an ExecCredential of client.authentication.k8s.io/v1"),
        ([printing("client.authentication.k8s.io/v1beta1", token="t")], {}, "does not print an ExecCredential of"),
        ([printing()], {}, "neither a token nor a certificate with its key"),
        ([printing(clientCertificateData="c")], {}, "neither a token nor a certificate with its key"),
        ([printing(token=5)], {}, "not text"),
        ([printing(token="t", expirationTimestamp="soon")], {}, "a time that cannot be read: 'soon'"),
        ([printing(token="t")], {"interactive": "Always"}, "needs a terminal"),
    ],
)
async def test_what_a_program_may_do_wrong(script, commands, more, message):
    with pytest.raises(ConfigError, match=message) as raised:
        await fetch(script(*commands, **more))
    assert str(raised.value).startswith("user 'me' gets its credentials from the program")


async def test_a_program_that_is_not_there_is_named_with_how_to_get_it():
    with pytest.raises(ConfigError, match=r"'no-such-program', which is not installed\. Get it at example\.com"):
        await fetch(ExecConfig(user="me", command="no-such-program", hint="Get it at example.com"))


async def test_a_program_has_its_time(script):
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"did not end within 0\.2 s"):
        await fetch(script("exec sleep 30"), patience=0.2)
    assert time.monotonic() - started < 10


async def test_it_runs_again_when_what_it_gave_expires_or_is_refused(script, tmp_path):
    runs = tmp_path / "runs"
    count = f"echo . >> {runs}"
    program = script(count, printing(token="t", expirationTimestamp=stamp(3600)))
    now = time.time()
    credentials = Credentials(Endpoint("https://h", program=program), time_of_day=lambda: now)
    await asyncio.gather(*(credentials.fetch() for _ in range(5)))
    assert credentials.headers() == {"authorization": "Bearer t"}
    assert runs.read_text() == ".\n"
    now += 7200
    await credentials.fetch()
    assert runs.read_text() == ".\n.\n"
    credentials.forget()
    await credentials.fetch()
    assert runs.read_text() == ".\n.\n.\n"
    script(count, "exit 1")
    credentials.forget()
    with pytest.raises(ConnectionFailed, match="ended with status 1"):
        await credentials.fetch()


async def test_a_request_carries_the_token(script):
    answers = Script(Say({"ok": 1}), Say({"ok": 2}))
    async with serving(answers) as address:
        endpoint = Endpoint(address, program=script(printing(token="secret")))
        async with ApiClient(HttpTransport(endpoint), retries=answers.retries) as client:
            assert await client.get(NODES, "n") == {"ok": 1}
            assert await client.get(NODES, "n") == {"ok": 2}
    assert [each.headers["authorization"] for each in answers.heard] == ["Bearer secret"] * 2


async def test_a_connection_shows_the_certificate(script, tmp_path):
    import ssl

    authority = Authority()
    certificate, key = authority.issue("api.example.com")
    (tmp_path / "server.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate.decode())
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    answers = Script(Say({"ok": 1}))
    mine, my_key = authority.issue("jane")
    program = script(printing(clientCertificateData=mine.decode(), clientKeyData=my_key.decode()))
    async with serving(answers, ssl=context) as address:
        endpoint = Endpoint(address, ca=authority.certificate, program=program)
        async with ApiClient(HttpTransport(endpoint), retries=answers.retries) as client:
            assert await client.get(NODES, "n") == {"ok": 1}
    assert "authorization" not in answers.heard[0].headers


def config(tmp_path, execution, cluster=None, **user):
    path = tmp_path / "config"
    document = {
        "current-context": "work",
        "contexts": [{"name": "work", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [{"name": "one", "cluster": {"server": "https://one", **(cluster or {})}}],
        "users": [{"name": "me", "user": {"exec": execution, **user}}],
    }
    path.write_text(json.dumps(document))
    return Kubeconfig.load([path])


def test_the_kubeconfig_of_a_program(tmp_path):
    execution = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "./bin/login",
        "args": ["--region", "eu"],
        "env": [{"name": "A", "value": "b"}],
        "installHint": "get it",
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    ca = base64.b64encode(b"authority").decode()
    cluster = {"certificate-authority-data": ca, "extensions": [extension]}
    program = config(tmp_path, execution, cluster).endpoint().program
    assert program == ExecConfig(
        user="me",
        command=str(tmp_path / "bin/login"),
        arguments=("--region", "eu"),
        environment={"A": "b"},
        api_version="client.authentication.k8s.io/v1beta1",
        interactive="IfAvailable",
        hint="get it",
        cluster={"server": "https://one", "certificate-authority-data": ca, "config": {"audience": "x"}},
    )
    in_path = config(tmp_path, {**execution, "command": "aws", "provideClusterInfo": False}).endpoint().program
    assert in_path is not None
    assert (in_path.command, in_path.cluster) == ("aws", None)


def test_written_credentials_are_preferred(tmp_path):
    execution = {"apiVersion": V1, "command": "x", "interactiveMode": "Never"}
    endpoint = config(tmp_path, execution, token="written").endpoint()
    assert (endpoint.token, endpoint.program) == ("written", None)


@pytest.mark.parametrize(
    ("execution", "message"),
    [
        (
            {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"},
            "is not supported with the apiVersion",
        ),
        ({"apiVersion": V1, "command": "x"}, "needs a command and an interactiveMode"),
        ({"apiVersion": V1, "interactiveMode": "Never"}, "needs a command"),
        (["x"], "is not a mapping"),
    ],
)
def test_what_may_be_wrong_with_it(tmp_path, execution, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, execution).endpoint()


def test_credentials_are_not_fetched_for_an_open_line(tmp_path):
    execution = {"apiVersion": V1, "command": "x", "interactiveMode": "Never"}
    with pytest.raises(ConfigError, match="not encrypted"):
        config(tmp_path, execution, {"server": "http://one"}).endpoint()
