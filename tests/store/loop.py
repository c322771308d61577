"""Runs an asynchronous test in a loop of its own."""

import asyncio
import functools

LONGEST = 20


def in_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LONGEST))

    return run
