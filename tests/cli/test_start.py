"""Components that are started before their server, or before they have their rights."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from tests.cli.accounts import account, grant
from tests.cli.running import Running, eventually, running
from tests.cli.test_outage import answer
from tests.scheduling_loop.api_servers import DrayServer, free_ports
from tests.server.process import listening

Dray = Callable[..., Result]


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose sockets have short names."""
    path = Path(tempfile.mkdtemp(prefix="dray-"))
    yield path
    shutil.rmtree(path)


def kubeconfig(path: Path, server: str, **user: str) -> Path:
    cluster = {"name": "c", "cluster": {"server": server}}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def commands(config: Path, folder: Path, ports: list[int]) -> dict[str, tuple[str, ...]]:
    """The command line of each component, by how its first line starts."""
    (folder / "kubelet/plugins_registry").mkdir(parents=True)
    at = ("--kubeconfig", str(config))
    driver = ("driver", "cpu", "--set", "sharedPool=off", "--node-name", "n", "--cdi-dir", str(folder / "cdi"))
    return {
        "Scheduling the pods": ("scheduler", *at, "--metrics-port", str(ports[0])),
        "Running job": ("controllers", "--controllers", "job", *at, "--metrics-port", str(ports[1])),
        "Driver dra.cpu": (*driver, "--kubelet-root", str(folder / "kubelet"), *at, "--metrics-port", str(ports[2])),
        "Node n": ("node", "--node-name", "n", "--driver", "none", "--root", str(folder / "node"), *at),
    }


def test_components_wait_for_a_server_that_is_down(short_path: Path) -> None:
    server = DrayServer(short_path)
    (port,) = free_ports(1)
    server._port = port
    config = kubeconfig(short_path / "early", f"http://127.0.0.1:{port}")
    ports = free_ports(3)
    with ExitStack() as stack:
        started = {
            greeting: stack.enter_context(running(*command))
            for greeting, command in commands(config, short_path, ports).items()
        }
        for component_port in ports:
            url = f"http://127.0.0.1:{component_port}"
            # Until the process listens, nobody answers.
            eventually(lambda url=url: reached(f"{url}/healthz") == (200, "ok"))
            status, said = eventually(
                lambda url=url: found if "Connect" in (found := reached(f"{url}/readyz"))[1] else None
            )
            assert (status, f"http://127.0.0.1:{port}" in said) == (503, True), said
        assert [component.process.poll() for component in started.values()] == [None] * 4
        server.start()
        stack.callback(server._end, server._process, kill=True)
        for greeting, component in started.items():
            assert component.line().startswith(greeting)
        for component_port in ports[:2]:
            eventually(
                lambda component_port=component_port: (
                    reached(f"http://127.0.0.1:{component_port}/readyz") == (200, "ok")
                )
            )
        for component in started.values():
            status, _ = component.stop()
            assert status == 0
            assert component.process.stderr is not None
            said = component.process.stderr.read()
            assert "Traceback" not in said
            before, again, _ = said.partition("answers again")
            assert (before.count("does not answer"), bool(again)) == (1, True), said


def reached(url: str) -> tuple[int, str]:
    try:
        return answer(url)
    except OSError as error:
        return 0, str(error) and ""


@pytest.mark.parametrize("command", ["scheduler", "controllers"])
def test_a_signal_ends_the_wait_for_a_server_at_once(command: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = kubeconfig(tmp_path / "early", f"http://127.0.0.1:{port}")
    log = tmp_path / "log"
    with log.open("w") as written:
        started = Running(command, "--kubeconfig", str(config), log=written)
        eventually(lambda: "does not answer" in log.read_text())
        status, seconds = started.stop()
        started.process.communicate()
    assert status == 0
    assert seconds < 5
    assert "Traceback" not in log.read_text()


def test_a_right_that_is_missing_is_named_and_waited_for(run: Dray, tmp_path: Path) -> None:
    admin = tmp_path / "admin"
    (port,) = free_ports(1)
    with listening(kubeconfig=admin, plain=False) as server:
        limited = account(run, admin, tmp_path / "limited")
        with running("scheduler", "--kubeconfig", str(limited), "--metrics-port", str(port)) as scheduler:
            url = f"http://127.0.0.1:{port}"
            _, said = eventually(lambda: found if "pods" in (found := reached(f"{url}/readyz"))[1] else None)
            assert f"{server.url} refuses: pods is forbidden" in said
            assert reached(f"{url}/healthz") == (200, "ok")
            grant(run, admin, "cluster-admin")
            assert scheduler.line().startswith("Scheduling the pods of default-scheduler")
            eventually(lambda: reached(f"{url}/readyz") == (200, "ok"))
            assert scheduler.stop()[0] == 0
            assert scheduler.process.stderr is not None
            log = scheduler.process.stderr.read()
    assert log.count("refuses: pods is forbidden") == 1
    assert log.count("allows the requests now, after ") == 1


def test_a_kubeconfig_that_cannot_be_used_ends_the_component_at_once(tmp_path: Path) -> None:
    with running("scheduler", "--kubeconfig", str(tmp_path / "missing")) as process:
        status, said = process.end()
        assert (status, said.startswith("error: no kubeconfig at")) == (2, True), said
    with listening(kubeconfig=tmp_path / "first", plain=False), listening(kubeconfig=tmp_path / "second", plain=False):
        wrong, other = (yaml.safe_load((tmp_path / name).read_text()) for name in ("first", "second"))
        wrong["clusters"][0]["cluster"]["server"] = other["clusters"][0]["cluster"]["server"]
        (tmp_path / "wrong").write_text(yaml.safe_dump(wrong))
        with running("scheduler", "--kubeconfig", str(tmp_path / "wrong")) as process:
            status, said = process.end()
    assert status == 2, said
    assert "has a certificate that this kubeconfig does not trust" in said
