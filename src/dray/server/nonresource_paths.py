"""Non-resource paths: discovery, OpenAPI, version, health, metrics."""

from __future__ import annotations

import hashlib
import platform
import sys
from urllib.parse import parse_qs

import msgspec

from dray.api.catalogue import RELEASE
from dray.api.objects import Object
from dray.api.protobuf import envelope
from dray.server import discovery, negotiation, paths, representations, status
from dray.server.authorization import Access
from dray.server.context import Context
from dray.server.metrics import Metrics, exposed, health_metrics
from dray.server.openapi.service import OpenApiService
from dray.server.requests import Request, Response, document
from dray.store.interface import StoreError

_TEXT = "text/plain; charset=utf-8"
_PLACES = (
    "api",
    "apis",
    "healthz",
    "livez",
    "metrics",
    "metrics/slis",
    "openapi/v2",
    "openapi/v3",
    "readyz",
    "version",
)


class NonresourcePaths:
    def __init__(self, context: Context, metrics: Metrics) -> None:
        self._context = context
        self._metrics = metrics
        self._open_api = OpenApiService(context.registry, context.worker)

    async def answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed(request.method)
        parts = paths.segments(request.path)
        self._context.security.authorize(request.user, Access("get", path=request.path))
        match parts:
            case ["api" | "apis", *rest]:
                return self._discovery(request, parts[0], rest)
            case ["openapi", *rest]:
                return await self._open_api.answer(request, rest)
            case ["version"]:
                # Always JSON, as in Kubernetes.
                return Response(200, msgspec.json.format(msgspec.json.encode(version()), indent=2), final=True)
            case [("healthz" | "livez" | "readyz") as check, *names]:
                return self._health(request, check, "/".join(names))
            case ["metrics", "slis"]:
                return exposed(health_metrics(self._context.health), request.headers.get("accept", ""))
            case ["metrics"]:
                return exposed(self._metrics.registry, request.headers.get("accept", ""))
            case ["dray", "backup"]:
                return self._backup()
            case [""]:
                return document({"paths": [f"/{place}" for place in _PLACES]})
        return Response(404, b"404 page not found\n", _TEXT)

    def _backup(self) -> Response:
        """Returns a backup of the store with all Secrets: RBAC grants this path to cluster administrators only."""
        try:
            return Response(200, self._context.store.snapshot(), "application/vnd.sqlite3", final=True)
        except StoreError as error:
            raise status.not_implemented(str(error)) from None

    def _discovery(self, request: Request, root: str, rest: list[str]) -> Response:
        registry = self._context.registry
        accept = request.headers.get("accept", "")
        media = negotiation.aggregated_discovery(accept)
        if not rest and media:
            return _aggregated(request, discovery.aggregated(registry, core=root == "api"), media)
        negotiation.check_plain(accept)
        match root, rest:
            case "api", []:
                return document(discovery.api_versions())
            case "apis", []:
                return document(discovery.group_list(registry))
            case "api", [name]:
                return document(discovery.resource_list(registry, "", name))
            case "apis", [group]:
                return document(discovery.one_group(registry, group))
            case "apis", [group, name]:
                return document(discovery.resource_list(registry, group, name))
        raise status.no_such_path()

    def _health(self, request: Request, check: str, name: str) -> Response:
        query = parse_qs(request.query, keep_blank_values=True, max_num_fields=200)
        found = self._context.health.report(check, only=name, without=frozenset(query.get("exclude", ())))
        if found is None:
            return Response(404, b"404 page not found\n", _TEXT)
        well, report = found
        body = report if not well or "verbose" in query else "ok"
        return Response(200 if well else 500, body.encode(), _TEXT)


def _aggregated(request: Request, found: Object, media: str) -> Response:
    """Returns aggregated discovery; a 304 if the client has the present version."""
    answer = document(found)
    etag = f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    answer.headers = {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}
    answer.final = True
    if request.headers.get("if-none-match") == etag:
        answer.code, answer.body = 304, b""
    elif media == negotiation.PROTOBUF:
        answer.body = envelope.encode(found)
    elif media == negotiation.YAML:
        answer.body = representations.as_yaml(answer.body)
    answer.content_type = f"{media};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    return answer


def version() -> Object:
    major, minor = RELEASE
    return {
        "major": str(major),
        "minor": str(minor),
        "gitVersion": f"v{major}.{minor}.0+dray",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_machine()}",
    }


def _machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
