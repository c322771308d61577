"""Network namespaces: made, held, entered, and gone when nobody holds them."""

import os
import socket

import pytest

from dray.node import network_namespaces as namespaces
from dray.node.runtimes.shim import system


@pytest.fixture
def path(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root makes networks")
    made = tmp_path / "netns"
    yield made
    namespaces.let_go(made)


def test_a_namespace_is_entered_by_work_alone_and_lives_while_it_is_held(path, tmp_path):
    namespaces.make(path)
    assert namespaces.holds(path)
    here = namespaces.number()
    inside, interfaces = namespaces.run_in(path, lambda: (namespaces.number(), socket.if_nameindex()))
    assert inside == namespaces.number(path) != here == namespaces.number()
    assert [name for _, name in interfaces] == ["lo"]
    second = tmp_path / "second"
    namespaces.hold(str(path), second)
    assert namespaces.is_in_use(inside, besides=path)
    namespaces.let_go(path)
    assert not path.exists()
    assert namespaces.number(second) == inside
    assert not namespaces.is_in_use(inside, besides=second)
    namespaces.let_go(second)


def test_its_loopback_interface_is_up(path):
    namespaces.make(path)

    def speak():
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
        return True

    assert namespaces.run_in(path, speak)
    assert namespaces.addresses(path) == []


def test_what_fails_inside_is_raised_outside(path):
    namespaces.make(path)
    with pytest.raises(ZeroDivisionError):
        namespaces.run_in(path, lambda: 1 // 0)


def test_the_place_of_a_namespace_that_has_ended_is_not_held(path, tmp_path):
    """As a runtime leaves it in the moment between the unmount and the removal of the file."""
    ended = tmp_path / "ended"
    ended.touch()
    with pytest.raises(OSError, match="there is no network namespace"):
        namespaces.hold(str(ended), path)
    assert not path.exists()


def test_whatever_is_mounted_there_is_let_go(path, tmp_path):
    (tmp_path / "plain").touch()
    path.touch()
    for _ in range(2):
        system.mount(str(tmp_path / "plain"), str(path), flags=system.MS_BIND)
    namespaces.let_go(path)
    assert not path.exists()
