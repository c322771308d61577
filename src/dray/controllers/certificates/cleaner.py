"""The cleaner of CertificateSigningRequests: what was decided an hour ago, or was not within a day, is deleted."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Final

from dray.api import certificate_requests
from dray.api.certificate_requests import APPROVED, DENIED, FAILED
from dray.api.objects import Object, condition_of, is_true, metadata_of, status_of
from dray.client.clock import moment
from dray.client.errors import ClientError
from dray.controllers.certificates.approver import REQUESTS
from dray.controllers.environment import Environment

_PERIOD: Final = 3600.0
_DECIDED: Final = timedelta(hours=1)
_UNDECIDED: Final = timedelta(hours=24)
_logger = logging.getLogger("dray.controllers")


class CertificateCleaner:
    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._time = environment.time
        self._requests = environment.informers.of(REQUESTS)

    async def run(self) -> None:
        while True:
            await self.clean()
            await asyncio.sleep(_PERIOD)

    async def clean(self) -> None:
        now = self._time.now()
        for obj in [request for request in self._requests.cache if is_old(request, now)]:
            name = metadata_of(obj)["name"]
            try:
                await self._client.delete_object(REQUESTS, obj)
            except ClientError as error:
                _logger.warning("CertificateSigningRequest %s cannot be deleted: %s", name, error)


def is_old(obj: Object, now: datetime) -> bool:
    if _has_expired(obj, now):
        return True
    for decision in (DENIED, FAILED, APPROVED):
        # An approved one may still be waiting for a signer.
        if is_true(obj, decision) and (decision != APPROVED or status_of(obj).get("certificate")):
            decided = (condition_of(obj, decision) or {}).get("lastUpdateTime")
            return now - _moment(decided, obj) > _DECIDED
    return now - _moment(None, obj) > _UNDECIDED


def _has_expired(obj: Object, now: datetime) -> bool:
    from cryptography import x509

    issued = certificate_requests.certificate_of(obj)
    if not issued:
        return False
    try:
        return x509.load_pem_x509_certificate(issued).not_valid_after_utc < now
    except ValueError:
        return False


def _moment(text: str | None, obj: Object) -> datetime:
    return moment(text or metadata_of(obj)["creationTimestamp"])
