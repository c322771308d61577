"""Histograms of durations, with the buckets of Kubernetes and with native ones.

The buckets are what text shows. Native ones, which only protobuf has, each end 2**(1/8) times as high as the one before
(schema 3, the factor of 1.1 that Kubernetes has), so that any quantile can be told to within a tenth.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import HistogramMetricFamily

BOUNDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0),
    *(3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
SCHEMA: Final = 3
# Shorter durations are counted together: each bucket costs memory in every series.
ZERO_THRESHOLD: Final = 2.0**-14
# Bucket bounds between one power of two and the next, as fractions that `frexp` returns.
_FRACTIONS: Final = tuple(0.5 * 2 ** (step / 2**SCHEMA) for step in range(2**SCHEMA))


class Histogram:
    __slots__ = ("_counts", "_native", "sum", "zeros")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._native: dict[int, int] = {}
        self.zeros = 0
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds
        if seconds <= ZERO_THRESHOLD:
            self.zeros += 1
        else:
            fraction, exponent = math.frexp(seconds)
            bucket = bisect_left(_FRACTIONS, fraction) + (exponent - 1) * len(_FRACTIONS)
            self._native[bucket] = self._native.get(bucket, 0) + 1

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """Returns each bound with the number of durations up to it; the last has all."""
        return list(zip((*BOUNDS, math.inf), accumulate(self._counts), strict=True))

    def spans(self) -> Iterator[tuple[int, list[int]]]:
        """Yields runs of adjacent native buckets: the index of the first, and the counts of all."""
        start, counts = 0, list[int]()
        for bucket in sorted(self._native):
            if counts and bucket != start + len(counts):
                yield start, counts
                counts = []
            if not counts:
                start = bucket
            counts.append(self._native[bucket])
        if counts:
            yield start, counts


class HistogramFamily(HistogramMetricFamily):
    """A histogram with native buckets for each series, by label values."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        super().__init__(name, documentation, labels=labels)
        self.label_names = tuple(labels)
        self.series: dict[tuple[str, ...], Histogram] = {}

    def add(self, values: Sequence[str], histogram: Histogram) -> None:
        self.series[tuple(values)] = histogram
        buckets = [("+Inf" if bound == math.inf else str(bound), count) for bound, count in histogram.cumulative()]
        self.add_metric(values, buckets, histogram.sum)
