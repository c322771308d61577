"""Metrics of policies and webhooks: how often and how long they were asked, what they rejected or let pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily

if TYPE_CHECKING:
    from dray.server.admission.dynamic.webhooks import Webhook

_MOST_SERIES = 1024
_NAME = "apiserver_admission_webhook"


class AdmissionMetrics:
    def __init__(self) -> None:
        # (name, type, operation, rejected) → [times, seconds]
        self._asked: dict[tuple[str, str, str, str], list[float]] = {}
        self._rejected: dict[tuple[str, str, str, str], int] = {}
        self._checked: dict[tuple[str, str, str], int] = {}
        self._open: dict[tuple[str, str], int] = {}

    def asked(self, webhook: Webhook, operation: str, seconds: float, error_type: str) -> None:
        key = (webhook.name, _type(webhook), operation, "true" if error_type else "false")
        if key in self._asked or len(self._asked) < _MOST_SERIES:
            entry = self._asked.setdefault(key, [0, 0.0])
            entry[0] += 1
            entry[1] += seconds
        if error_type:
            rejected = (webhook.name, _type(webhook), operation, error_type)
            if rejected in self._rejected or len(self._rejected) < _MOST_SERIES:
                self._rejected[rejected] = self._rejected.get(rejected, 0) + 1

    def checked(self, policy: str, binding: str, action: str) -> None:
        """Counts an evaluation of a validating policy for a binding; `action` is allow, deny, warn or audit."""
        key = (policy, binding, action)
        if key in self._checked or len(self._checked) < _MOST_SERIES:
            self._checked[key] = self._checked.get(key, 0) + 1

    def failed_open(self, webhook: Webhook) -> None:
        key = (webhook.name, _type(webhook))
        if key in self._open or len(self._open) < _MOST_SERIES:
            self._open[key] = self._open.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        labels = ["name", "type", "operation"]
        text = "Time that webhooks took to answer."
        took = SummaryMetricFamily(f"{_NAME}_admission_duration_seconds", text, labels=[*labels, "rejected"])
        for key, (times, seconds) in self._asked.items():
            took.add_metric(list(key), int(times), seconds)
        rejections = CounterMetricFamily(
            f"{_NAME}_rejection_count", "What webhooks rejected.", labels=[*labels, "error_type"]
        )
        for rejected, count in self._rejected.items():
            rejections.add_metric(list(rejected), count)
        passed = CounterMetricFamily(f"{_NAME}_fail_open_count", "Webhooks that were passed over.", labels=labels[:2])
        for opened, count in self._open.items():
            passed.add_metric(list(opened), count)
        checks = CounterMetricFamily(
            "apiserver_validating_admission_policy_check",
            "What came of asking validating policies.",
            labels=["policy", "policy_binding", "enforcement_action"],
        )
        for checked, count in self._checked.items():
            checks.add_metric(list(checked), count)
        yield from (took, rejections, passed, checks)


def _type(webhook: Webhook) -> str:
    return "admit" if webhook.mutates else "validating"
