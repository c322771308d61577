"""Webhooks: compiled from their configurations, what they are asked, and what their answers mean."""

from __future__ import annotations

import time
from base64 import b64decode
from typing import Any

import msgspec

from dray.api.objects import Object
from dray.cel import policy as language
from dray.cel.errors import EvaluationError
from dray.server.admission.dynamic.expressions import Conditions, Evaluation
from dray.server.admission.dynamic.matching import Matcher
from dray.server.admission.dynamic.metrics import AdmissionMetrics
from dray.server.admission.dynamic.request import AdmissionRequest
from dray.server.status import ApiError
from dray.server.webhook_client import WebhookClient, WebhookError

_GROUP = "admission.k8s.io"
_REVIEWS = ("v1", "v1beta1")
_MAX_WARNING = 256
_MOST_WARNINGS = 16
_CONDITIONS = language.environment(webhook=True)


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


class Response(msgspec.Struct):
    uid: str = ""
    allowed: bool = False
    status: _Status | None = None
    patch: str | None = None
    patchType: str | None = None
    auditAnnotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    response: Response | None = None


_decode = msgspec.json.Decoder(_Review).decode


class Webhook:
    """A webhook; `matcher`, `name` and `again` mean the same as in a policy. Raises CompileError."""

    def __init__(self, configuration: Object, webhook: Object, *, mutates: bool) -> None:
        self.configuration = configuration["metadata"]["name"]
        self.name = webhook["name"]
        self.matcher = Matcher(webhook, "rules")
        self.mutates = mutates
        self.again = webhook.get("reinvocationPolicy") == "IfNeeded"
        self.fails = webhook.get("failurePolicy") != "Ignore"
        self._client_config = webhook["clientConfig"]
        self._seconds = webhook.get("timeoutSeconds") or 10
        self._review = next(version for version in webhook["admissionReviewVersions"] if version in _REVIEWS)
        self._conditions = Conditions(webhook.get("matchConditions") or [], _CONDITIONS)

    def concerns(self, request: AdmissionRequest, version: str) -> bool:
        """Returns True if the match conditions are true; raises a refusal if one fails and failurePolicy is Fail."""
        if not self.matcher.rules or not self.matcher.selects(request, version):
            return False
        if not self._conditions.programs:
            return True
        try:
            return self._conditions.hold(Evaluation(request.values(version), language.CONDITIONS_BUDGET))
        except EvaluationError as error:
            if not self.fails:
                return False
            raise request.attributes.forbid(f'admission webhook "{self.name}": {error}') from None

    async def ask(
        self, request: AdmissionRequest, version: str, client: WebhookClient, metrics: AdmissionMetrics
    ) -> Any:
        """Returns the JSON patch of the webhook, or None; raises its refusal, or a failed call."""
        started, error_type = time.perf_counter(), ""
        try:
            response = await self._call(request, version, client)
            self._note(request, response)
            if not response.allowed:
                error_type = "no_error"
                raise _denied(self.name, response.status)
            return _patch(response) if request.object is not None else None
        except WebhookError as error:
            error_type = "calling_webhook_error"
            if self.fails:
                said = f'failed calling webhook "{self.name}": failed to call webhook: {error}'
                raise ApiError(500, "InternalError", f"Internal error occurred: {said}") from None
            metrics.failed_open(self)
            return None
        finally:
            metrics.asked(self, request.target.operation, time.perf_counter() - started, error_type)

    async def _call(self, request: AdmissionRequest, version: str, client: WebhookClient) -> Response:
        body = msgspec.json.encode(_review(request, version, f"{_GROUP}/{self._review}"))
        answer = await client.post(self._client_config, body, self._seconds)
        try:
            review = _decode(answer)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise WebhookError(f"the answer cannot be read: {error}") from None
        if review.response is None:
            raise WebhookError("webhook response was absent")
        if self._review == "v1":
            _verify(review, review.response, request.uid, mutates=self.mutates)
        else:
            # Before v1, answers need not name the patch type.
            review.response.patchType = "JSONPatch"
        if not self.mutates:
            review.response.patch = None
        return review.response

    def _note(self, request: AdmissionRequest, response: Response) -> None:
        attributes = request.attributes
        for warning in (response.warnings or [])[:_MOST_WARNINGS]:
            attributes.warnings.append(warning[:_MAX_WARNING])
        for key, value in list((response.auditAnnotations or {}).items())[:_MOST_WARNINGS]:
            attributes.annotations[f"{self.name}/{key}"[:_MAX_WARNING]] = value[: 4 * _MAX_WARNING]


def of_configuration(configuration: Object, *, mutates: bool) -> list[Webhook]:
    return [Webhook(configuration, webhook, mutates=mutates) for webhook in configuration.get("webhooks") or ()]


def _review(request: AdmissionRequest, version: str, api_version: str) -> Object:
    asked = {name: value for name, value in request.document(version).items() if value != ""}
    asked["object"] = request.shown(request.object, version)
    asked["oldObject"] = request.shown(request.old, version)
    return {"kind": "AdmissionReview", "apiVersion": api_version, "request": asked}


def _verify(review: _Review, response: Response, uid: str, *, mutates: bool) -> None:
    expected = f"{_GROUP}/v1, Kind=AdmissionReview"
    if response.uid != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{response.uid[:64]}"')
    if (got := f"{review.apiVersion}, Kind={review.kind}") != expected:
        raise WebhookError(f"expected webhook response of {expected}, got {got}")
    if not mutates and (response.patch or response.patchType is not None):
        raise WebhookError(f"validating webhook may not return response.{'patch' if response.patch else 'patchType'}")
    if response.patch and response.patchType is None:
        raise WebhookError("webhook returned response.patch but not response.patchType")
    if not response.patch and response.patchType is not None:
        raise WebhookError("webhook returned response.patchType but not response.patch")


def _patch(response: Response) -> Any:
    if not response.patch:
        return None
    if response.patchType != "JSONPatch":
        raise WebhookError(f'webhook returned invalid response.patchType of "{(response.patchType or "")[:64]}"')
    try:
        return msgspec.json.decode(b64decode(response.patch, validate=True))
    except (ValueError, RecursionError) as error:
        raise WebhookError(f"the patch cannot be read: {error}") from None


def _denied(name: str, status: _Status | None) -> ApiError:
    said = f'admission webhook "{name}" denied the request'
    why = (status.message or status.reason) if status is not None else ""
    code = status.code if status is not None and 400 <= status.code < 600 else 400
    reason = status.reason if status is not None else ""
    return ApiError(code, reason[:_MAX_WARNING], f"{said}: {why[:32_768]}" if why else f"{said} without explanation")
