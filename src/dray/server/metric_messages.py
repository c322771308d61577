"""Metrics as Prometheus' protobuf messages, each MetricFamily after its length.

Only this format has native histograms. Samples are put together again from the lines of which a family in
prometheus_client consists.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from dray.api.protobuf.wire import FIXED64, VARINT, delimited, tag, varint
from dray.server.histograms import SCHEMA, ZERO_THRESHOLD, Histogram, HistogramFamily

CONTENT_TYPE: Final = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
_COUNTER, _GAUGE, _SUMMARY, _UNTYPED, _HISTOGRAM = range(5)
_TYPES: Final = {"counter": _COUNTER, "gauge": _GAUGE, "summary": _SUMMARY, "histogram": _HISTOGRAM}
# The field of Metric that holds the value, by type.
_VALUE: Final = {_COUNTER: 3, _GAUGE: 2, _UNTYPED: 5}
_Labels = tuple[tuple[str, str], ...]


def messages(families: Iterable[Metric]) -> bytes:
    written = (_family(family) for family in families)
    return b"".join(varint(len(message)) + message for message in written)


def _family(family: Metric) -> bytes:
    kind = _TYPES.get(family.type, _UNTYPED)
    name = f"{family.name}_total" if kind == _COUNTER else family.name
    parts = [_text(1, name), _text(2, family.documentation), _number(3, kind)]
    if isinstance(family, HistogramFamily):
        parts += [
            _metric(zip(family.label_names, values, strict=True), 7, _histogram(series))
            for values, series in family.series.items()
        ]
    elif kind in _VALUE:
        parts += [
            _metric(sample.labels.items(), _VALUE[kind], _double(1, sample.value))
            for sample in family.samples
            if sample.name == name
        ]
    else:
        write, field = (_summary, 4) if kind == _SUMMARY else (_plain_histogram, 7)
        own = "quantile" if kind == _SUMMARY else "le"
        parts += [_metric(labels, field, write(name, samples)) for labels, samples in _grouped(family, own)]
    return b"".join(parts)


def _grouped(family: Metric, own: str) -> Iterator[tuple[_Labels, list[Sample]]]:
    """Yields the samples of each series; the label `own` is left out of its labels."""
    found: dict[_Labels, list[Sample]] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != own)
        found.setdefault(labels, []).append(sample)
    yield from found.items()


def _metric(labels: Iterable[tuple[str, str]], field: int, value: bytes) -> bytes:
    pairs = b"".join(delimited(1, _text(1, name) + _text(2, text)) for name, text in sorted(labels))
    return delimited(4, pairs + delimited(field, value))


def _summary(name: str, samples: list[Sample]) -> bytes:
    quantiles = (
        delimited(3, _double(1, float(sample.labels["quantile"])) + _double(2, sample.value))
        for sample in samples
        if sample.name == name
    )
    return _totals(name, _by_name(samples)) + b"".join(quantiles)


def _plain_histogram(name: str, samples: list[Sample]) -> bytes:
    buckets = (
        _bucket(float(sample.labels["le"]), int(sample.value)) for sample in samples if sample.name == f"{name}_bucket"
    )
    return _totals(name, _by_name(samples)) + b"".join(buckets)


def _by_name(samples: Iterable[Sample]) -> Mapping[str, float]:
    return {sample.name: sample.value for sample in samples}


def _totals(name: str, values: Mapping[str, float]) -> bytes:
    return _number(1, int(values.get(f"{name}_count", 0))) + _double(2, values.get(f"{name}_sum", 0.0))


def _histogram(series: Histogram) -> bytes:
    parts = [_number(1, series.count), _double(2, series.sum)]
    parts += [_bucket(bound, count) for bound, count in series.cumulative()]
    parts += [_signed(5, SCHEMA), _double(6, ZERO_THRESHOLD), _number(7, series.zeros)]
    deltas, end, before = list[bytes](), 0, 0
    for start, counts in series.spans():
        parts.append(delimited(12, _signed(1, start - end) + _number(2, len(counts))))
        end = start + len(counts)
        for count in counts:
            deltas.append(_signed(13, count - before))
            before = count
    return b"".join((*parts, *deltas))


def _bucket(bound: float, count: int) -> bytes:
    return delimited(3, _number(1, count) + _double(2, bound))


def _text(field: int, value: str) -> bytes:
    return delimited(field, value.encode())


def _number(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value)


def _signed(field: int, value: int) -> bytes:
    """Encodes a number as zigzag, which is short for small numbers of either sign."""
    return _number(field, value << 1 if value >= 0 else (-value << 1) - 1)


def _double(field: int, value: float) -> bytes:
    return tag(field, FIXED64) + struct.pack("<d", value)
