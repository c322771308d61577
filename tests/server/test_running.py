"""The server on a socket: TLS, files, restarts, and clients that misbehave."""

import asyncio
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner

from dray.cli.apiserver import apiserver
from dray.client.clock import micro_timestamp
from dray.server.http_protocol import MAX_HEAD_BYTES
from dray.server.listening import ListenError
from dray.server.running import Options, RunningServer
from tests.server.process import listening


def fetch(url, *, method="GET", body=None, context=None, **headers):
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def create(server, name):
    body = json.dumps({"metadata": {"name": name}}).encode()
    headers = {"Content-Type": "application/json"}
    return fetch(f"{server.url}/api/v1/namespaces/default/configmaps", method="POST", body=body, **headers)


def test_who_asks_for_another_protocol_is_answered_and_the_log_gives_no_advice(caplog):
    async def attach(running):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(running.url.rpartition(":")[2]))
        upgrade = (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
        )
        writer.write(
            f"GET /api/v1/namespaces/default/pods/p/attach HTTP/1.1\r\nHost: 127.0.0.1\r\n{upgrade}\r\n".encode()
        )
        line = await reader.readline()
        writer.close()
        return line

    async def run():
        async with RunningServer(Options(port=0, plain=True)).running() as running:
            return await attach(running)

    assert asyncio.run(run()).startswith(b"HTTP/1.1 404")
    assert "pip install" not in caplog.text


def test_what_was_written_is_there_after_a_restart(tmp_path):
    with listening(data=tmp_path / "data") as server:
        assert create(server, "kept")[0] == 201
    with listening(data=tmp_path / "data") as server:
        code, body = fetch(f"{server.url}/api/v1/namespaces/default/configmaps/kept")
        assert (code, json.loads(body)["metadata"]["name"]) == (200, "kept")


def test_tls_with_a_certificate_from_the_kubeconfig(tmp_path):
    with listening(plain=False, kubeconfig=tmp_path / "kubeconfig") as server:
        config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0
        import base64

        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        assert cluster["server"] == server.url
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        nobody = ssl.create_default_context(cadata=authority)
        assert fetch(f"{server.url}/api/v1/pods", context=nobody)[0] == 401
        assert fetch(f"{server.url}/healthz", context=nobody) == (200, b"ok")
        token = {"Authorization": f"Bearer {server.context.security.admin_token}"}
        assert fetch(f"{server.url}/api/v1/pods", context=nobody, **token)[0] == 200
        pair = tmp_path / "pair.pem"
        pair.write_bytes(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        admin = ssl.create_default_context(cadata=authority)
        admin.load_cert_chain(pair)
        assert fetch(f"{server.url}/api/v1/pods", context=admin)[0] == 200


def test_plain_http_is_for_loopback():
    with pytest.raises(ListenError), listening(bind="0.0.0.0"):
        pass
    done = CliRunner().invoke(apiserver, ["--insecure-http", "--bind", "0.0.0.0", "--port", "0"])
    assert done.exit_code == 2
    assert "loopback" in done.output or "127.0.0.1" in done.output


@pytest.mark.parametrize("gates", ["Nonsense=true", "DRAAdminAccess=false", "x"])
def test_gates_that_are_none(gates):
    done = CliRunner().invoke(apiserver, ["--feature-gates", gates])
    assert done.exit_code == 2


def connection(server):
    host, _, port = server.url.rpartition("/")[2].partition(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    made.settimeout(10)
    return made


class TestClientsThatMisbehave:
    def test_a_head_without_end(self):
        with listening() as server, connection(server) as client:
            client.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
            with pytest.raises(OSError):  # noqa: PT012 - which of them fails depends on the kernel's buffers
                for _ in range(MAX_HEAD_BYTES * 8 // 4096):
                    client.sendall(b"x" * 4096)
                    time.sleep(0.001)
                client.recv(1)
                raise ConnectionError
            assert fetch(f"{server.url}/healthz")[0] == 200

    @pytest.mark.parametrize(
        "text",
        [
            b"nonsense\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ],
    )
    def test_what_is_not_http(self, text):
        with listening() as server:
            with connection(server) as client:
                client.sendall(text)
                assert client.recv(100).startswith((b"HTTP/1.1 4", b""))
            assert fetch(f"{server.url}/healthz")[0] == 200

    def test_a_body_that_is_too_large_by_its_length(self):
        with listening() as server, connection(server) as client:
            head = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
            client.sendall(head)
            assert client.recv(100).startswith(b"HTTP/1.1 413")

    def test_watchers_do_not_keep_the_server_from_stopping(self):
        with listening() as server:
            client = connection(server)
            client.sendall(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
            began = time.monotonic()
        assert time.monotonic() - began < 4
        client.close()


def test_a_data_directory_that_everybody_may_write_to_is_closed(tmp_path, caplog):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    with listening(data=data):
        assert data.stat().st_mode & 0o777 == 0o755
    assert f"{data} was writable for everybody (mode 0777); now only for its owner" in caplog.text


def test_the_server_itself_counts_for_quotas_and_elects_who_leads():
    """Without any other controller: in Kubernetes both are affairs of the API server."""

    def write(server, path, document):
        body = json.dumps(document).encode()
        code, answer = fetch(f"{server.url}{path}", method="POST", body=body, **{"Content-Type": "application/json"})
        assert code == 201, answer

    def eventually(holds):
        until = time.monotonic() + 20
        while not (found := holds()) and time.monotonic() < until:
            time.sleep(0.05)
        return found

    with listening() as server:
        core, leases = "/api/v1/namespaces/default", "/apis/coordination.k8s.io"
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}}
        write(server, f"{core}/resourcequotas", quota)
        create(server, "counted")
        spec = {"leaseName": "lock", "binaryVersion": "1.37.0", "emulationVersion": "1.37.0"}
        spec |= {"strategy": "OldestEmulationVersion", "renewTime": micro_timestamp(datetime.now(UTC))}
        write(server, f"{leases}/v1beta1/namespaces/default/leasecandidates", {"metadata": {"name": "a"}, "spec": spec})

        def read(path):
            code, answer = fetch(f"{server.url}{path}")
            return json.loads(answer) if code == 200 else {}

        def used():
            return read(f"{core}/resourcequotas/q").get("status", {}).get("used")

        # kube-root-ca.crt is the other one.
        assert eventually(lambda: used() == {"configmaps": "2"}), used()
        lock = f"{leases}/v1/namespaces/default/leases/lock"
        assert eventually(lambda: read(lock).get("spec", {}).get("holderIdentity") == "a"), read(lock)
