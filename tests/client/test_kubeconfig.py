import base64
from pathlib import Path

import pytest
import yaml

from dray.client.endpoint import in_cluster
from dray.client.errors import ConfigError
from dray.client.kubeconfig import Kubeconfig


def write(path, *, clusters=(), users=(), contexts=(), current=""):
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": values} for name, values in dict(clusters).items()],
        "users": [{"name": name, "user": values} for name, values in dict(users).items()],
        "contexts": [{"name": name, "context": values} for name, values in dict(contexts).items()],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def data(text):
    return base64.b64encode(text).decode()


SERVER = {"server": "https://one:6443"}


def test_inline_data(tmp_path):
    path = write(
        tmp_path / "config",
        clusters={
            "one": {
                **SERVER,
                "certificate-authority-data": data(b"ca"),
                "tls-server-name": "n",
                "proxy-url": "http://p",
            }
        },
        users={"me": {"client-certificate-data": data(b"cert"), "client-key-data": data(b"key"), "as": "jane"}},
        contexts={"work": {"cluster": "one", "user": "me", "namespace": "team"}},
        current="work",
    )
    endpoint = Kubeconfig.load([path]).endpoint()
    assert (endpoint.server, endpoint.namespace) == ("https://one:6443", "team")
    assert (endpoint.ca, endpoint.certificate, endpoint.key) == (b"ca", b"cert", b"key")
    assert (endpoint.tls_server_name, endpoint.proxy, endpoint.impersonate) == ("n", "http://p", "jane")


def test_files_are_found_beside_the_kubeconfig(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text(name)
    user = {"client-certificate": "cert.pem", "client-key": str(tmp_path / "key.pem"), "tokenFile": "token"}
    path = write(
        tmp_path / "config",
        clusters={"one": {**SERVER, "certificate-authority": "./ca.pem", "insecure-skip-tls-verify": False}},
        users={"me": user},
        contexts={"work": {"cluster": "one", "user": "me"}},
        current="work",
    )
    endpoint = Kubeconfig.load([path]).endpoint()
    assert (endpoint.ca, endpoint.certificate, endpoint.key) == (b"ca", b"cert", b"key")
    assert (endpoint.token_file, endpoint.namespace, endpoint.insecure) == (tmp_path / "token", "default", False)


def test_contexts_can_be_chosen(tmp_path):
    path = write(
        tmp_path / "config",
        clusters={"one": SERVER, "two": {"server": "https://two", "insecure-skip-tls-verify": True}},
        users={"me": {"token": "t", "tokenFile": "unused"}, "basic": {"username": "u", "password": "p"}},
        contexts={
            "a": {"cluster": "one", "user": "me"},
            "b": {"cluster": "two", "user": "basic"},
            "c": {"cluster": "two"},
        },
        current="a",
    )
    config = Kubeconfig.load([path])
    assert config.contexts == ["a", "b", "c"]
    assert (config.endpoint().token, config.endpoint().token_file) == ("t", None)
    assert (config.endpoint("b").server, config.endpoint("b").password, config.endpoint("b").insecure) == (
        "https://two",
        "p",
        True,
    )
    assert not config.endpoint("c").secret


def test_of_several_files_the_first_wins(tmp_path):
    first = write(tmp_path / "1" / "config", clusters={"one": SERVER}, current="work")
    second = write(
        tmp_path / "2" / "config",
        clusters={"one": {"server": "https://wrong"}},
        users={"me": {"tokenFile": "token"}},
        contexts={"work": {"cluster": "one", "user": "me"}, "play": {"cluster": "one"}},
        current="play",
    )
    environ = {"KUBECONFIG": f"{tmp_path / 'none'}:{first}:{second}"}
    endpoint = Kubeconfig.load(environ=environ).endpoint()
    assert (endpoint.server, endpoint.token_file) == ("https://one:6443", tmp_path / "2" / "token")


def test_the_home_directory_is_the_last_resort(tmp_path):
    write(
        tmp_path / ".kube" / "config", clusters={"one": SERVER}, contexts={"work": {"cluster": "one"}}, current="work"
    )
    assert Kubeconfig.load(environ={"HOME": str(tmp_path)}).endpoint().server == "https://one:6443"
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        Kubeconfig.load(environ={"HOME": str(tmp_path / "empty")})


@pytest.mark.parametrize("way", ["exec", "auth-provider"])
def test_programs_of_unknown_protocols_are_not_run(tmp_path, way):
    path = write(
        tmp_path / "config",
        clusters={"one": SERVER},
        users={"me": {way: {"command": "touch"}}},
        contexts={"work": {"cluster": "one", "user": "me"}},
        current="work",
    )
    with pytest.raises(ConfigError, match=f"by {way}, which is not supported"):
        Kubeconfig.load([path]).endpoint()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not YAML"),
        ("- a", "is not a kubeconfig"),
        ("clusters: [1]", "list of named entries"),
        ("clusters: [{name: one, cluster: 7}]", "is not a mapping"),
        ("", "no current context"),
        ("current-context: work", "no context 'work'"),
        ("{current-context: w, contexts: [{name: w, context: {cluster: c}}]}", "no cluster 'c'"),
        ("{current-context: w, contexts: [{name: w, context: {cluster: 5}}]}", "not a text"),
        (
            "{current-context: w, contexts: [{name: w, context: {cluster: c, user: u}}], clusters: [{name: c}]}",
            "no user 'u'",
        ),
        (
            "{current-context: w, contexts: [{name: w, context: {cluster: c}}], clusters: [{name: c}]}",
            "not the address",
        ),
        (
            "{current-context: w, contexts: [{name: w, context: {cluster: c}}],"
            " clusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: '?'}}]}",
            "is not base64",
        ),
        (
            "{current-context: w, contexts: [{name: w, context: {cluster: c}}],"
            " clusters: [{name: c, cluster: {server: 'https://h', certificate-authority: none.pem}}]}",
            "cannot read certificate-authority",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        Kubeconfig.load([path]).endpoint()


def test_in_a_pod(tmp_path):
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match="not in a pod"):
        in_cluster(environ={}, volume=tmp_path)
    with pytest.raises(ConfigError, match="no service account"):
        in_cluster(environ=environ, volume=tmp_path)
    for name, text in (("ca.crt", "ca"), ("namespace", "team\n"), ("token", "t")):
        Path(tmp_path, name).write_text(text)
    endpoint = in_cluster(environ=environ, volume=tmp_path)
    assert (endpoint.server, endpoint.namespace, endpoint.ca) == ("https://[fd00::1]:443", "team", b"ca")
    assert endpoint.token_file == tmp_path / "token"
