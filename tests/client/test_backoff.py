import pytest

from dray.client.retries import Backoff, retry_after


def test_twice_as_long_each_time():
    backoff = Backoff(first=1, longest=10)
    assert [backoff.delay(failures, lambda: 0.0) for failures in range(1, 6)] == [1, 2, 4, 8, 10]
    assert backoff.delay(10**9, lambda: 0.0) == 10


def test_chance_shortens_it():
    assert Backoff(first=1, jitter=0.5).delay(1, lambda: 1.0) == 0.5


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7), ("", 0), ("-1", 0), ("Wed, 21 Oct", 0), ("9" * 400, 0), ("²", 0)]
)
def test_retry_after(value, seconds):
    assert retry_after(value) == seconds
