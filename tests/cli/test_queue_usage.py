"""How far the past counts for the shares of queues, as it is written on the command line."""

import click
import pytest

from dray.cli.queue_usage import usage_options
from dray.scheduling.quota.usage_decay import UsageOptions


def test_what_is_written_is_what_is_meant():
    assert usage_options("168h") == UsageOptions(window=168 * 3600.0)
    found = usage_options("24h,half-life=90m,k=0.5,tumbling")
    assert found == UsageOptions(window=24 * 3600.0, half_life=5400.0, k=0.5, tumbling=True)


@pytest.mark.parametrize("text", ["", "week", "0s", "24h,half-life=0s", "24h,k=-1", "24h,k=x", "24h,slow"])
def test_what_means_nothing_is_refused(text):
    with pytest.raises(click.BadParameter):
        usage_options(text)
