"""gRPC channels to unix sockets of plugins.

A channel never goes idle and reconnects within seconds: the other end is a process of this machine, and a pod waits
for it. It has subchannels of its own, since a new plugin under the path of an old one must not inherit its failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc

_NEVER: Final = 2**31 - 1
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.client_idle_timeout_ms", _NEVER),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


def unix_channel(path: Path | str, interceptors: Sequence[grpc.aio.ClientInterceptor] = ()) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS, interceptors=list(interceptors))
