"""`pods/proxy` and `services/proxy`: requests reach what listens behind the address of a pod."""

import gzip
import http.server
import threading
import time

import pytest

from dray.server.kubelets import client
from dray.server.listening import own_address
from dray.server.requests import Stream
from dray.server.security.loopback import is_loopback
from tests.server.api import PODS, pod

SERVICES = "/api/v1/namespaces/default/services"


class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/silent":
            return time.sleep(1)
        if self.path == "/slow":
            self.send_response(500)
            self.end_headers()
            return time.sleep(1)
        if self.path == "/odd":
            self.send_response(302)
            self.send_header("Location", "http://\xff/")
            self.send_header("Content-Type", "text/\xff")
            self.send_header("Etag", "plain")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.path == "/broken":
            self.send_response(500)
            self.send_header("Content-Length", "100")
            return self.end_headers()
        if self.path == "/packed":
            packed = gzip.compress(b" " * 10_000_000)
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(packed)))
            self.end_headers()
            return self.wfile.write(packed)
        if self.path == "/headers":
            return self._answer(200, " ".join(self.headers))
        return self._answer(200, f"{self.path} {self.headers.get('X-Mine')} {self.headers.get('Authorization')}")

    def do_POST(self):
        self._answer(201, self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, code, text):
        self.send_response(code)
        self.send_header("Content-Type", "text/echo")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def backend():
    address = own_address()
    if is_loopback(address):
        pytest.skip("this machine has no address but loopback")
    with http.server.ThreadingHTTPServer((address, 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[:2]
        server.shutdown()
        thread.join()


def read(api, answer):
    async def all_of():
        return b"".join([chunk async for chunk in answer.chunks])

    return api.runner.run(all_of()) if isinstance(answer, Stream) else answer.body


def running(api, address, port):
    made = pod("p")
    made["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": port}]
    api.create(PODS, made)
    api.patch(f"{PODS}/p/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}})


def test_a_pod_by_port_name_and_number(api, backend):
    running(api, *backend)
    for name in ("p", "p:web", f"http:p:{backend[1]}"):
        answer = api.raw("GET", f"{PODS}/{name}/proxy/some/path?a=b", authorization="Bearer x", x_mine="yes")
        assert read(api, answer) == b"/some/path?a=b yes None"
        assert answer.content_type == "text/echo"
    answer = api.raw("POST", f"{PODS}/p/proxy/x", b"sent")
    assert (answer.code, answer.body) == (201, b"sent")
    assert api.raw("GET", f"{PODS}/p:none/proxy/").code == 400
    assert api.raw("GET", f"{PODS}/ftp:p:1/proxy/").code == 400


def test_a_service_by_its_endpoints(api, backend):
    api.create(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}]}})
    code, answer = api.ask("GET", f"{SERVICES}/s:web/proxy/")
    assert (code, answer["message"]) == (503, 'no endpoints available for service "s"')
    address, port = backend
    subset = {"addresses": [{"ip": address}], "ports": [{"name": "web", "port": port}]}
    api.create("/api/v1/namespaces/default/endpoints", {"metadata": {"name": "s"}, "subsets": [subset]})
    for name in ("s", "s:web", "s:80"):
        assert read(api, api.raw("GET", f"{SERVICES}/{name}/proxy/")) == b"/ None None"
    assert api.raw("GET", f"{SERVICES}/s:none/proxy/").code == 503


def test_an_external_name_is_not_reached(api):
    address, port = "192.0.2.1", 80
    spec = {"type": "ExternalName", "externalName": address, "ports": [{"port": port}]}
    api.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})
    code, answer = api.ask("GET", f"{SERVICES}/s/proxy/")
    assert code == 503
    assert 'no endpoints available for service "s"' in answer["message"]


def test_headers_of_the_connection_to_the_client_stay_behind(api, backend):
    running(api, *backend)
    given = {
        "connection": "close, X-Mine",
        "proxy_authorization": "Basic x",
        "expect": "100-continue",
        "te": "trailers",
    }
    assert read(api, api.raw("GET", f"{PODS}/p/proxy/", x_mine="yes", **given)) == b"/ None None"
    answer = api.raw("GET", f"{PODS}/p/proxy/headers", impersonate_user="admin", **given)
    passed = set(read(api, answer).decode().lower().split())
    assert not {"proxy-authorization", "expect", "te", "impersonate-user"} & passed


_SELVES = ["127.0.0.1", "169.254.169.254", "::1", "0.0.0.0", "::"]
_IN_IPV6 = ["::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0", "64:ff9b::7f00:1", "2002:7f00:1::"]


@pytest.mark.parametrize("address", [*_SELVES, *_IN_IPV6])
def test_addresses_of_the_machine_itself_are_not_reached(api, address):
    running(api, address, 80)
    code, answer = api.ask("GET", f"{PODS}/p/proxy/")
    assert (code, answer["message"]) == (403, f"address not allowed: {address}")


def test_a_pod_that_does_not_answer_is_not_waited_for_for_ever(api, backend, monkeypatch):
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.3)
    running(api, *backend)
    for path in ("silent", "slow"):
        code, answer = api.ask("GET", f"{PODS}/p/proxy/{path}")
        assert (code, answer["message"]) == (503, "error trying to reach service: TimeoutError")


@pytest.mark.parametrize("address", ["::ffff:127.0.0.1", "::ffff:169.254.1.1"])
def test_endpoints_have_no_addresses_of_the_machine_itself(api, address):
    made = {"metadata": {"name": "s"}, "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]}
    assert api.ask("POST", "/api/v1/namespaces/default/endpoints", made)[0] == 422


def test_an_answer_that_breaks_off_is_no_error_of_the_server(api, backend):
    running(api, *backend)
    code, answer = api.ask("GET", f"{PODS}/p/proxy/broken")
    assert code == 503
    assert "error trying to reach service: " in answer["message"]


def test_headers_that_nobody_can_write_again_are_left_out(api, backend):
    running(api, *backend)
    answer = api.raw("GET", f"{PODS}/p/proxy/odd")
    assert (answer.code, answer.content_type, answer.headers) == (302, "text/plain; charset=utf-8", {"etag": "plain"})


def test_compressed_responses_are_passed_on_compressed(api, backend):
    address, port = backend
    running(api, address, port)
    answer = api.raw("GET", f"{PODS}/p:{port}/proxy/packed")
    assert answer.encoding == "gzip"
    body = read(api, answer)
    assert len(body) < 100_000
    assert gzip.decompress(body) == b" " * 10_000_000
