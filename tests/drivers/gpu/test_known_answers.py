"""A query that a GPU has answered before must not be taken for one that it does not support."""

import pytest

from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.known_answers import KnownAnswers
from dray.drivers.gpu.nvml_calls import NvmlError

INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND = 2, 3, 4, 13


class Query:
    """A function of NVML that returns an answer, or the error that is set."""

    def __init__(self, name):
        self.__name__ = name
        self.error = None

    def __call__(self, *arguments):
        if self.error is not None:
            raise pynvml.NVMLError(self.error)
        return "answer"


def answers(ask, query, *errors):
    """Returns the answer with each of these errors set; the error itself if it is raised."""

    def answer(error):
        query.error = error
        try:
            return ask("a query", query, 1)
        except NvmlError as raised:
            return raised.code

    return [answer(error) for error in errors]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # As old as NVML, and open to everybody.
        ("nvmlDeviceGetMemoryInfo", [2, None, 4, 13]),
        ("nvmlDeviceGetMigMode", [2, None, 4, None]),
        ("nvmlDeviceGetPerformanceState", [2, None, None, 13]),
        ("nvmlDeviceGetGpuInstanceProfileInfo", [2, None, None, None]),
    ],
)
def test_what_a_gpu_may_not_support_depends_on_the_query(name, expected):
    errors = INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND
    query = Query(name)
    assert answers(KnownAnswers().ask("GPU-1"), query, *errors) == expected
    known = KnownAnswers()
    assert answers(known.ask("GPU-1"), query, None, *errors) == ["answer", *errors]


def test_answers_of_gpus_and_mig_modes_are_kept_apart():
    known, query = KnownAnswers(), Query("nvmlDeviceGetGpuInstanceProfileInfo")
    known.ask("GPU-1", True)("a query", query, 1)
    assert answers(known.ask("GPU-1", True), query, NOT_SUPPORTED) == [NOT_SUPPORTED]
    assert answers(known.ask("GPU-1", False), query, NOT_SUPPORTED) == [None]
    assert answers(known.ask("GPU-2", True), query, NOT_SUPPORTED) == [None]


def test_a_reloaded_driver_may_support_less():
    known, query = KnownAnswers(), Query("nvmlDeviceGetMemoryInfo")
    known.ask("GPU-1")("a query", query, 1)
    known.forget()
    assert answers(known.ask("GPU-1"), query, NOT_SUPPORTED) == [None]
