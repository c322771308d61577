"""The kubelet's end of the DRA protocol: prepare and unprepare over the socket of one driver instance.

The protocol is the first of the plugin's list that is known here, `v1` or `v1beta1`; they differ in the share id
alone, which the older one does not have. An answer is checked before anybody uses it: it must name every claim that
was asked for and no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from dray._proto import kubelet_pb2 as messages
from dray._proto.services import DRA_V1, DRA_V1BETA1, Service
from dray.driver.claims import ClaimReference
from dray.node.channels import unix_channel
from dray.node.devices import PreparedDevice
from dray.node.errors import DriverCallFailed, NodeError, RegistrationError
from dray.node.metrics import NodeMetrics

PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"

_PROTOCOLS: Final[Mapping[str, Service]] = {"v1.DRAPlugin": DRA_V1, "v1beta1.DRAPlugin": DRA_V1BETA1}


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer for one claim: its devices, or an error."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class WrongAnswer(NodeError):
    """Raised if a driver's answer misses a requested claim or names another one."""


def dra_version(versions: Sequence[str]) -> str:
    """Returns the protocol to use with a plugin: the first of its versions that is supported."""
    for version in versions:
        if version in _PROTOCOLS:
            return version
    offered = ", ".join(versions) or "none"
    raise RegistrationError(f"none of the versions of the plugin ({offered}) is known here: {', '.join(_PROTOCOLS)}")


class PluginClient:
    """Calls one driver instance; a gRPC error or a timeout raises DriverCallFailed."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        versions: Sequence[str],
        *,
        limit: float,
        metrics: NodeMetrics | None = None,
        interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
    ) -> None:
        self.version = dra_version(versions)
        self.channel = unix_channel(endpoint, interceptors)
        self._driver = driver
        self._limit = limit
        self._metrics = metrics or NodeMetrics()
        self._service = _PROTOCOLS[self.version]
        self._stub = self._service.stub(self.channel)

    async def prepare(self, claims: Sequence[ClaimReference]) -> dict[str, Prepared]:
        """Prepares claims. Returns the answers by claim uid."""
        request = messages.NodePrepareResourcesRequest(claims=_claims(claims))
        answer = await self._call(PREPARE, request)
        self._check(PREPARE, claims, answer.claims)
        return {
            uid: Prepared(tuple(map(self._device, said.devices)), said.error) for uid, said in answer.claims.items()
        }

    async def unprepare(self, claims: Sequence[ClaimReference]) -> dict[str, str]:
        """Unprepares claims. Returns by claim uid why it failed; empty if it succeeded."""
        request = messages.NodeUnprepareResourcesRequest(claims=_claims(claims))
        answer = await self._call(UNPREPARE, request)
        self._check(UNPREPARE, claims, answer.claims)
        return {uid: said.error for uid, said in answer.claims.items()}

    async def close(self) -> None:
        await self.channel.close()

    async def _call(self, method: str, request: Any) -> Any:
        begun, code = time.monotonic(), grpc.StatusCode.OK
        try:
            return await getattr(self._stub, method)(request, timeout=self._limit)
        except grpc.aio.AioRpcError as error:
            code = error.code()
            raise DriverCallFailed(self._driver, method, code.name, error.details() or "") from None
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # A call ends this way when its driver is deregistered, which closes the channel.
            raise DriverCallFailed(self._driver, method, code.name, "the driver was deregistered") from None
        finally:
            path = self._service.path(method)
            self._metrics.calls.labels(self._driver, path, code.name).observe(time.monotonic() - begun)

    def _check(self, method: str, asked: Sequence[ClaimReference], answered: Iterable[str]) -> None:
        uids = {claim.uid for claim in asked}
        answered = set(answered)
        if unknown := sorted(answered - uids):
            raise WrongAnswer(
                f"{method} of DRA driver {self._driver} returned result for unknown claim UID {', '.join(unknown)}"
            )
        if skipped := [str(claim) for claim in asked if claim.uid not in answered]:
            raise WrongAnswer(
                f"{method} of DRA driver {self._driver} skipped {len(skipped)} ResourceClaims: {', '.join(skipped)}"
            )

    def _device(self, said: messages.Device) -> PreparedDevice:
        # Only v1 has the field, and there it may be absent.
        share = said.share_id if self._service is DRA_V1 and said.HasField("share_id") else None
        return PreparedDevice(
            said.pool_name, said.device_name, tuple(said.request_names), tuple(said.cdi_device_ids), share
        )


def _claims(claims: Iterable[ClaimReference]) -> list[messages.Claim]:
    return [messages.Claim(namespace=claim.namespace, name=claim.name, uid=claim.uid) for claim in claims]
