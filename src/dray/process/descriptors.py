"""Descriptors that somebody else makes readable or writable: sockets, pipes, terminals."""

from __future__ import annotations

import asyncio
import socket


async def readable(descriptor: int | socket.socket) -> None:
    """Returns when there is something to read or to accept, which is left there."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def writable(descriptor: int | socket.socket) -> None:
    """Returns when something can be written."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
