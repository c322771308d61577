"""The API server without its HTTP: requests in, answers out.

Over HTTP (application.py) and from within the process the same `handle` is called, so both meet the same admission,
authorization and limits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from dray.api.objects import Object
from dray.server import answer_forms, parameters, paths, routing, status
from dray.server.admission.dynamic.registry import DynamicAdmission
from dray.server.api_services import ApiServices
from dray.server.bootstrap import bootstrap
from dray.server.certificate_signer import CertificateSigner
from dray.server.context import Context
from dray.server.custom_kinds import CustomKinds
from dray.server.flow_control.controller import FlowControl
from dray.server.metrics import Metrics, request_labels
from dray.server.nonresource_paths import NonresourcePaths
from dray.server.paths import ResourcePath
from dray.server.requests import JSON, Answer, Request, Response, code_of
from dray.server.role_aggregation import RoleAggregation
from dray.server.service_range_keeping import ServiceRanges
from dray.store.interface import NotDurable
from dray.store.retention import Retention

_log = logging.getLogger("dray.server")
# Start hooks by part, under kube-apiserver's names.
_HOOKS = {
    # State that the server keeps of the store was read when its parts were made.
    "made": (
        "start-apiserver-admission-initializer",
        "generic-apiserver-start-informers",
        "start-apiextensions-informers",
        "crd-informer-synced",
        "start-kube-aggregator-informers",
        "apiservice-openapi-controller",
        "storage-readiness",
    ),
    "bootstrap": (
        "start-system-namespaces-controller",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "start-cluster-authentication-info-controller",
        "rbac/bootstrap-roles",
    ),
    "custom kinds": ("start-apiextensions-controllers",),
    "flow control": ("priority-and-fairness-config-consumer", "priority-and-fairness-filter"),
    "ranges": ("start-kubernetes-service-cidr-controller", "start-service-ip-repair-controllers"),
    "API services": (
        "apiservice-registration-controller",
        "apiservice-status-local-available-controller",
        "apiservice-status-remote-available-controller",
        "kube-apiserver-autoregistration",
    ),
}
_LASTING = frozenset({"attach", "exec", "log", "portforward", "proxy"})


class ApiServer:
    def __init__(
        self, context: Context, *, retention: Retention | None = None, provided: Sequence[Object] = ()
    ) -> None:
        """`provided` are definitions of custom kinds that are served unless the store has a definition of the kind."""
        self.context = context
        self.metrics = Metrics(lambda: context.store.revision)
        self._nonresource = NonresourcePaths(context, self.metrics)
        self.custom_kinds = CustomKinds(context, provided)
        context.dynamic = DynamicAdmission(context)
        self.metrics.registry.register(context.dynamic.metrics)
        self._roles = RoleAggregation(context)
        self._signer = CertificateSigner(context)
        self._services = ApiServices(context)
        self._ranges = ServiceRanges(context)
        self.flow_control = FlowControl(context)
        self.metrics.registry.register(self.flow_control)
        self._retention = retention or Retention()
        self._compacting: asyncio.Task[None] | None = None
        context.health.expect(*(hook for hooks in _HOOKS.values() for hook in hooks))
        context.health.watch_life(self._registration)
        context.health.watch(lambda: {"informer-sync": "" if self._compacting else "not started"})

    def _registration(self) -> dict[str, str]:
        missing = self._services.unregistered()
        return {"autoregister-completion": f"missing APIService: {missing}" if missing else ""}

    async def start(self) -> None:
        """Starts the server. Call it once, in the event loop that will serve, before the first request."""
        health = self.context.health
        health.finish(*_HOOKS["made"])
        await bootstrap(self.context)
        await self._roles.start()
        self._signer.start()
        self.custom_kinds.resume()
        health.finish(*_HOOKS["custom kinds"])
        await self._services.start()
        health.finish(*_HOOKS["API services"])
        await self._ranges.start()
        health.finish(*_HOOKS["ranges"])
        await self.flow_control.start()
        health.finish(*_HOOKS["flow control"])
        self._compacting = asyncio.create_task(self._retention.run(self.context.store), name="retention")

    async def close(self) -> None:
        if self._compacting is not None:
            self._compacting.cancel()
            await asyncio.gather(self._compacting, return_exceptions=True)
        await self._roles.close()
        await self._signer.close()
        await self._services.close()
        await self._ranges.close()
        await self.flow_control.close()
        await self.custom_kinds.close()
        await self.context.close()

    async def handle(self, request: Request) -> Answer:
        started = time.perf_counter()
        path = paths.parse(request.path)
        answer = await self._handle(request, path)
        if request.headers.get("accept", JSON) != JSON or "pretty" in request.query:
            answer = await self.written(request, answer)
        code = code_of(answer)
        labels = request_labels(request, path if code != 404 else None)
        self.metrics.count(labels, code, time.perf_counter() - started)
        return answer

    async def written(self, request: Request, answer: Answer) -> Answer:
        """Returns the answer in the form that the client accepts."""
        try:
            return await answer_forms.written(self.context.worker, request, answer)
        except status.ApiError as error:
            return refused(error)

    async def _handle(self, request: Request, path: ResourcePath | None) -> Answer:
        try:
            if "timeout=" in request.query:
                _check_timeout(request, path.subresource if path is not None else "")
            if path is None:
                return await self._nonresource.answer(request)
            return await routing.answer(self.context, request, path)
        except status.ApiError as error:
            return refused(error)
        except NotDurable as error:
            # The store has logged the failure, once for all requests.
            return refused(status.not_stored(error))
        except RecursionError:
            return refused(status.bad_request("the document is nested too deeply"))
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return refused(status.ApiError(500, "InternalError", "Internal error occurred: the request failed"))


def _check_timeout(request: Request, subresource: str) -> None:
    """Checks the parameter `timeout`, except for watches and streams, which last as long as the client wants."""
    query = parameters.parse(request.query)
    if subresource not in _LASTING and not parameters.boolean(query, "watch"):
        parameters.check_timeout(query)


def refused(error: status.ApiError) -> Response:
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    return Response(error.code, error.encode(), headers=headers)
