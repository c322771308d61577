"""`/stats/summary`, `/metrics` and `/metrics/resource`: what node, pods and containers use, in the kubelet's forms."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dray.api.objects import Object, key_of, uid_of
from dray.client.clock import timestamp
from dray.node.server.found_pods import AGENT
from dray.node.server.usage import PodUsage, Reading, UsageMeter

METER: Final = web.AppKey("meter", UsageMeter)
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_NANO: Final = 1_000_000_000


async def summary(request: web.Request) -> web.Response:
    meter = request.app[METER]
    machine = meter.machine()
    memory = {**_memory(machine), "availableBytes": meter.available_memory()}
    node = {
        "nodeName": request.app[AGENT].options.node,
        "startTime": _time(machine.started_at),
        "cpu": _cpu(machine),
        "memory": memory,
    }
    return web.json_response({"node": node, "pods": [_pod(usage) for usage in await meter.pods()]})


def _pod(usage: PodUsage) -> Object:
    namespace, name = key_of(usage.pod)
    readings = usage.containers.values()
    whole = Reading(
        time=max(reading.time for reading in readings),
        started_at=min(reading.started_at for reading in readings),
        cpu_nanoseconds=sum(reading.cpu_nanoseconds for reading in readings),
        nano_cores=sum(reading.nano_cores for reading in readings),
        memory_bytes=sum(reading.memory_bytes for reading in readings),
    )
    return {
        "podRef": {"name": name, "namespace": namespace, "uid": uid_of(usage.pod)},
        "startTime": _time(whole.started_at),
        "containers": [
            {"name": name, "startTime": _time(each.started_at), "cpu": _cpu(each), "memory": _memory(each)}
            for name, each in usage.containers.items()
        ],
        "cpu": _cpu(whole),
        "memory": _memory(whole),
    }


def _cpu(reading: Reading) -> Object:
    return {
        "time": _time(reading.time),
        "usageNanoCores": reading.nano_cores,
        "usageCoreNanoSeconds": reading.cpu_nanoseconds,
    }


def _memory(reading: Reading) -> Object:
    used = reading.memory_bytes
    return {"time": _time(reading.time), "usageBytes": used, "workingSetBytes": used}


def _time(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))


async def metrics(request: web.Request) -> web.Response:
    """Answers with metrics of the agent: prepare and unprepare calls, and claims in use."""
    text = generate_latest(request.app[AGENT].dra.metrics.registry)
    return web.Response(body=text, headers={"Content-Type": _TEXT})


async def resource_metrics(request: web.Request) -> web.Response:
    meter = request.app[METER]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(_families(meter.machine(), await meter.pods()))))
    return web.Response(body=generate_latest(registry), headers={"Content-Type": _TEXT})


class _Collected:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(machine: Reading, pods: list[PodUsage]) -> Iterable[Metric]:
    yield CounterMetricFamily("node_cpu_usage_seconds", "Processor time.", value=machine.cpu_nanoseconds / _NANO)
    yield GaugeMetricFamily("node_memory_working_set_bytes", "Memory in use.", value=machine.memory_bytes)
    labels = ("namespace", "pod", "container")
    cpu = CounterMetricFamily("container_cpu_usage_seconds", "Processor time.", labels=labels)
    memory = GaugeMetricFamily("container_memory_working_set_bytes", "Memory in use.", labels=labels)
    start = GaugeMetricFamily("container_start_time_seconds", "Since the epoch.", labels=labels)
    pod_cpu = CounterMetricFamily("pod_cpu_usage_seconds", "Processor time.", labels=labels[:2])
    pod_memory = GaugeMetricFamily("pod_memory_working_set_bytes", "Memory in use.", labels=labels[:2])
    for usage in pods:
        key = key_of(usage.pod)
        for name, each in usage.containers.items():
            cpu.add_metric((*key, name), each.cpu_nanoseconds / _NANO)
            memory.add_metric((*key, name), each.memory_bytes)
            start.add_metric((*key, name), each.started_at)
        pod_cpu.add_metric(key, sum(reading.cpu_nanoseconds for reading in usage.containers.values()) / _NANO)
        pod_memory.add_metric(key, sum(reading.memory_bytes for reading in usage.containers.values()))
    yield from (cpu, memory, start, pod_cpu, pod_memory)
    yield GaugeMetricFamily("resource_scrape_error", "1 if something could not be read.", value=0)
