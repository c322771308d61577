import base64

import pytest

from dray.client.endpoint import Credentials, Endpoint
from dray.client.errors import ConfigError


@pytest.mark.parametrize(
    "server", ["", "api.example.com", "ftp://host", "https://", "https://host:port", "https://[::"]
)
def test_addresses_that_are_none(server):
    with pytest.raises(ConfigError, match="not the address"):
        Endpoint(server)


@pytest.mark.parametrize("secret", [{"token": "t"}, {"token_file": "t"}, {"username": "u", "password": "p"}])
def test_secrets_are_not_sent_in_the_clear(secret):
    with pytest.raises(ConfigError, match="not encrypted"):
        Endpoint("http://api.example.com", **secret)
    for server in ("https://api.example.com", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost"):
        assert Endpoint(server, **secret).secret


def test_secrets_are_not_printed():
    endpoint = Endpoint("https://h", token="hidden", password="hidden", certificate=b"hidden", key=b"hidden")
    assert "hidden" not in repr(endpoint)


def test_a_certificate_needs_its_key():
    with pytest.raises(ConfigError, match="together"):
        Endpoint("https://h", certificate=b"c")


def test_headers():
    assert Credentials(Endpoint("https://h")).headers() == {}
    assert Credentials(Endpoint("https://h", token="t", impersonate="jane")).headers() == {
        "authorization": "Bearer t",
        "impersonate-user": "jane",
    }
    basic = Credentials(Endpoint("https://h", username="u", password="p:q")).headers()["authorization"]
    assert base64.b64decode(basic.removeprefix("Basic ")) == b"u:p:q"


def test_a_token_file_is_read_every_minute(tmp_path):
    now, path = 0.0, tmp_path / "token"
    credentials = Credentials(Endpoint("https://h", token_file=path), clock=lambda: now)
    with pytest.raises(ConfigError, match="cannot read the token"):
        credentials.headers()
    path.write_text("one\n")
    assert credentials.headers() == {"authorization": "Bearer one"}
    path.write_text("two\n")
    now = 59.0
    assert credentials.headers() == {"authorization": "Bearer one"}
    now = 60.0
    assert credentials.headers() == {"authorization": "Bearer two"}
    path.unlink()
    now = 200.0
    assert credentials.headers() == {"authorization": "Bearer two"}
