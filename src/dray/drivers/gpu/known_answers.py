"""Answers that GPUs have given in this process, so that a fact that gets lost is told from one that never was there.

Not every GPU supports every query. But a query that a GPU has answered before and now calls "not supported" has failed:
the GPU is sick, or its driver is. The answers of a GPU in MIG mode and outside it are kept apart, because some queries
are supported in one of the two only. When the kernel driver was reloaded, everything is forgotten: it may be another
version.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from dray.drivers.gpu.nvml_calls import NvmlError, call, may_lack

Ask = Callable[..., Any]
"""`ask(doing, function, *arguments)` returns None if the GPU does not support the call. Other errors are raised."""


class KnownAnswers:
    def __init__(self) -> None:
        self._given: set[Hashable] = set()

    def ask(self, uuid: str, mig_mode: bool | None = None) -> Ask:
        """Returns a function that asks the GPU with this UUID. It raises NvmlError if a known answer is missing now."""

        def ask(doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
            simple = tuple(argument for argument in arguments if isinstance(argument, int | str))
            key = uuid, mig_mode, function.__name__, simple
            try:
                answer = call(doing, function, *arguments)
            except NvmlError as error:
                if key in self._given or not may_lack(function, error):
                    raise
                return None
            self._given.add(key)
            return answer

        return ask

    def forget(self) -> None:
        self._given.clear()
