"""A lease for an interface in a pod, from a server at its other end."""

import ipaddress
import socket
import struct
import threading

import pytest

from dray.drivers.nic.attachment import AttachmentError
from dray.drivers.nic.config import Route
from dray.drivers.nic.dhcp import classless_routes
from tests.drivers.nic.networks import ip, make_interface, seen
from tests.drivers.nic.test_attach import Desk

MAGIC = b"\x63\x82\x53\x63"


class DhcpServer(threading.Thread):
    """Offers one address over an interface of the host; `refuses` says no to whoever asks for it."""

    def __init__(self, interface, address, refuses=False):
        super().__init__(daemon=True)
        self._address = ipaddress.IPv4Address(address).packed
        self._refuses = refuses
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._socket.bind(("0.0.0.0", 67))
        self._socket.settimeout(10)
        self.asked = []

    def run(self):
        for _ in range(2):
            try:
                message = self._socket.recv(2048)
            except OSError:
                break
            kind = message[message.index(MAGIC) + 6]
            self.asked.append(kind)
            self._answer(message, {1: 2, 3: 6 if self._refuses else 5}[kind])
        self._socket.close()

    def _answer(self, message, kind):
        head = struct.pack("!BBBB", 2, 1, 6, 0) + message[4:12] + bytes(4) + self._address + bytes(8) + message[28:236]
        routes = bytes([16, 10, 9, 10, 0, 0, 1])
        options = {53: bytes([kind]), 54: bytes([10, 0, 0, 1]), 1: bytes([255, 255, 255, 0]), 121: routes}
        # Somebody else in the network who says nothing that can be understood goes first.
        for each in ({53: b""}, options):
            self._send(head, each)

    def _send(self, head, options):
        encoded = b"".join(bytes([code, len(value)]) + value for code, value in options.items())
        self._socket.sendto(head + MAGIC + encoded + b"\xff", ("255.255.255.255", 68))


@pytest.fixture
def desk(host_network, tmp_path):
    return Desk(tmp_path / "state")


@pytest.mark.parametrize("refuses", [False, True])
def test_an_interface_asks_a_server_for_its_address(desk, pod_network, refuses):
    before = make_interface("nic0")
    ip("addr", "add", "10.0.0.1/24", "dev", "nic0p")
    server = DhcpServer("nic0p", "10.0.0.77", refuses)
    server.start()
    pod = pod_network()
    desk.plan("nic0", interface={"name": "net1", "dhcp": True})
    if refuses:
        with pytest.raises(AttachmentError, match=r"the server refuses 10\.0\.0\.77"):
            desk.attach("nic0", pod)
    else:
        assert desk.attach("nic0", pod).in_pod.addresses == ("10.0.0.77/24",)
        assert any("10.9.0.0/16 via 10.0.0.1" in each for each in pod.seen("net1")["routes"])
    server.join(10)
    assert server.asked == [1, 3]
    desk.release("nic0")
    assert seen("nic0") == before


def test_without_a_server_it_is_refused_in_time(desk, pod_network, monkeypatch):
    monkeypatch.setattr("dray.drivers.nic.dhcp.request.__defaults__", (0.3,))
    make_interface("nic0")
    desk.plan("nic0", interface={"dhcp": True})
    with pytest.raises(AttachmentError, match="no DHCP server answers on nic0"):
        desk.attach("nic0", pod_network())


def test_classless_routes_of_a_server():
    data = bytes([0, 10, 0, 0, 1, 24, 192, 168, 7, 10, 0, 0, 2, 32, 10, 0, 0, 1, 0, 0, 0, 0])
    assert classless_routes(data) == (
        Route(destination="0.0.0.0/0", gateway="10.0.0.1"),
        Route(destination="192.168.7.0/24", gateway="10.0.0.2"),
        Route(destination="10.0.0.1/32", scope=253),
    )
    assert classless_routes(bytes([24, 192])) == ()
