"""A lease from a DHCP server (RFC 2131), asked for once over an interface that is up and has no address yet.

Answers are read below the IP layer, since the kernel drops packets for an interface without address in some settings.
The lease is neither renewed nor given back, as with the published driver: servers need leases as long as pods live.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from ipaddress import IPv4Address
from typing import Final

import msgspec

from dray.drivers.nic.attachment import AttachmentError
from dray.drivers.nic.config import Route
from dray.drivers.nic.links import Address

_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0
_SERVER_PORT, _CLIENT_PORT = 67, 68
_COOKIE: Final = b"\x63\x82\x53\x63"
_DISCOVER, _OFFER, _REQUEST, _ACK, _NAK = 1, 2, 3, 5, 6
_MASK, _ASKED_ADDRESS, _KIND, _SERVER, _WANTED, _ROUTES = 1, 50, 53, 54, 55, 121
_FIXED: Final = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s")
_BROADCAST: Final = 0x8000
_IP: Final = 0x0800

Options = dict[int, bytes]


class Lease(msgspec.Struct, frozen=True):
    address: Address
    routes: tuple[Route, ...] = ()


def request(interface: str, seconds: float = _SECONDS) -> Lease:
    """In the network namespace of the calling thread. Raises AttachmentError."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IP)) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind((interface, _IP))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sender.bind(("0.0.0.0", _CLIENT_PORT))
        return _Exchange(interface, sender, receiver, time.monotonic() + seconds).lease()


class _Exchange:
    def __init__(self, interface: str, sender: socket.socket, receiver: socket.socket, deadline: float) -> None:
        self._interface = interface
        self._sender = sender
        self._receiver = receiver
        self._deadline = deadline
        self._number = int.from_bytes(os.urandom(4), "big")
        # The hardware address: the last member of the address of a packet socket.
        self._mac: bytes = receiver.getsockname()[4]

    def lease(self) -> Lease:
        wanted = bytes([_MASK, _ROUTES])
        address, options = self._ask(_DISCOVER, {_WANTED: wanted}, (bytes([_OFFER]),))
        asked = {_ASKED_ADDRESS: address, _SERVER: options.get(_SERVER, b""), _WANTED: wanted}
        address, options = self._ask(_REQUEST, asked, (bytes([_ACK]), bytes([_NAK])))
        if options[_KIND] == bytes([_NAK]):
            raise AttachmentError(f"interface.dhcp: the server refuses {IPv4Address(asked[_ASKED_ADDRESS])}")
        prefix = int.from_bytes(options.get(_MASK, b"\xff" * 4), "big").bit_count()
        return Lease(Address(str(IPv4Address(address)), prefix), classless_routes(options.get(_ROUTES, b"")))

    def _ask(self, kind: int, options: Options, answers: tuple[bytes, ...]) -> tuple[bytes, Options]:
        while time.monotonic() < self._deadline:
            self._sender.sendto(self._message(kind, options), ("255.255.255.255", _SERVER_PORT))
            until = min(self._deadline, time.monotonic() + _RETRY_SECONDS)
            while (left := until - time.monotonic()) > 0:
                self._receiver.settimeout(left)
                try:
                    found = self._parsed(self._receiver.recv(4096))
                except TimeoutError:
                    break
                if found is not None and found[1].get(_KIND) in answers:
                    return found
        raise AttachmentError(f"interface.dhcp: no DHCP server answers on {self._interface}")

    def _message(self, kind: int, options: Options) -> bytes:
        none = bytes(4)
        padded = self._mac.ljust(16, b"\0")
        head = (1, 1, len(self._mac), 0, self._number, 0, _BROADCAST, none, none, none, none, padded, b"", b"")
        given = {_KIND: bytes([kind]), **options}
        encoded = b"".join(bytes([code, len(value)]) + value for code, value in given.items() if value)
        return _FIXED.pack(*head) + _COOKIE + encoded + b"\xff"

    def _parsed(self, packet: bytes) -> tuple[bytes, Options] | None:
        """The address that is offered, and the options; None where it is no answer to this client."""
        length = (packet[0] & 0xF) * 4 if packet else 0
        if len(packet) < length + 8 + _FIXED.size + 4 or packet[9] != socket.IPPROTO_UDP:
            return None
        if struct.unpack_from("!H", packet, length + 2)[0] != _CLIENT_PORT:
            return None
        data = packet[length + 8 :]
        fields = _FIXED.unpack_from(data)
        if fields[0] != 2 or fields[4] != self._number or data[_FIXED.size : _FIXED.size + 4] != _COOKIE:
            return None
        return fields[8], _options(data[_FIXED.size + 4 :])


def _options(data: bytes) -> Options:
    found: Options = {}
    at = 0
    while at < len(data) and data[at] != 0xFF:
        if data[at] == 0:
            at += 1
            continue
        if at + 2 > len(data):
            break
        length = data[at + 1]
        found[data[at]] = found.get(data[at], b"") + data[at + 2 : at + 2 + length]
        at += 2 + length
    return found


def classless_routes(data: bytes) -> tuple[Route, ...]:
    """Parses DHCP option 121 (RFC 3442): prefix length, significant bytes of the prefix, router."""
    found = []
    while data:
        prefix = data[0]
        size = (prefix + 7) // 8
        if prefix > 32 or len(data) < 5 + size:
            break
        network = IPv4Address(data[1 : 1 + size].ljust(4, b"\0"))
        router = IPv4Address(data[1 + size : 5 + size])
        # Without router it is a network that is reached directly.
        gateway = "" if int(router) == 0 else str(router)
        found.append(Route(destination=f"{network}/{prefix}", gateway=gateway, scope=0 if gateway else 253))
        data = data[5 + size :]
    return tuple(found)
