"""Metrics of devices: how many of each DeviceClass are in each state, and how busy the allocated ones are.

They are computed when they are asked for, at most every ten seconds. A device counts for every class that selects it,
and under the class "" if there is none. The states are those of `dray devices`. Which classes select a device is kept
until slices or classes change: for 10,000 devices and ten classes that takes 0.25 s, and the rest 0.04 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from time import monotonic
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dray.allocation.device_states import DeviceState, Place
from dray.allocation.devices import Device
from dray.allocation.selectors import Selectors
from dray.allocation.work import Work, WorkExhausted
from dray.api.gates import FeatureGates
from dray.api.objects import Object, key_of, mapping, mappings, spec_of

_KEPT_SECONDS: Final = 10.0
_PLACE: Final = ("node", "driver_name", "pool", "device")


class DeviceMetrics(Collector):
    def __init__(
        self,
        states: Callable[[], Sequence[DeviceState]],
        classes: Callable[[], Sequence[Object]],
        version: Callable[[], Hashable],
        gates: FeatureGates,
    ) -> None:
        """`version` returns another value when slices or classes have changed."""
        self._states = states
        self._classes = classes
        self._version = version
        self._selectors = Selectors(gates)
        self._matches: tuple[Hashable, dict[Place, list[str]]] = (None, {})
        self._kept: tuple[float, list[GaugeMetricFamily]] = (float("-inf"), [])

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("dray_devices", "Devices by DeviceClass and state.", labels=("class", "state"))
        yield GaugeMetricFamily("dray_device_utilization_ratio", "How busy a device is, from 0 to 1.", labels=_PLACE)
        yield GaugeMetricFamily("dray_device_memory_used_bytes", "Memory of a device that is in use.", labels=_PLACE)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        at, families = self._kept
        if monotonic() >= at + _KEPT_SECONDS:
            families = self._collected()
            self._kept = monotonic(), families
        return iter(families)

    def _collected(self) -> list[GaugeMetricFamily]:
        devices, ratio, memory = self.describe()
        states = self._states()
        for labels, count in sorted(self._counts(states).items()):
            devices.add_metric(labels, count)
        for state in states:
            report, place = state.utilization, (state.node, *state.place)
            if report is not None and report.percent is not None:
                ratio.add_metric(place, report.percent / 100)
            if report is not None and report.memory_used is not None:
                memory.add_metric(place, report.memory_used)
        return [devices, ratio, memory]

    def _counts(self, states: Sequence[DeviceState]) -> Counter[tuple[str, str]]:
        version = self._version()
        if version != self._matches[0]:
            self._matches = version, self._matched(states)
        matches = self._matches[1]
        return Counter((name, state.state) for state in states for name in matches.get(state.place) or [""])

    def _matched(self, states: Sequence[DeviceState]) -> dict[Place, list[str]]:
        """Returns the classes that select each device."""
        devices = [Device(*device_state.place[:2], device_state.document) for device_state in states]
        found: dict[Place, list[str]] = {}
        self._selectors.work = Work()
        for class_ in self._classes():
            try:
                selected = self._selected(class_, devices)
            except WorkExhausted:
                continue
            _, name = key_of(class_)
            for number, state in enumerate(states):
                if selected >> number & 1:
                    found.setdefault(state.place, []).append(name)
        return found

    def _selected(self, device_class: Object, devices: Sequence[Device]) -> int:
        selected = (1 << len(devices)) - 1
        for selector in mappings(spec_of(device_class).get("selectors")):
            expression = mapping(selector.get("cel")).get("expression")
            if expression:
                selected &= self._selectors.column(str(expression), devices).selected
        return selected
