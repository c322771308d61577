"""A driver process that is killed in the midst of calls and started anew whenever it is dead, as a DaemonSet does."""

import asyncio
import contextlib

from dray.testing.kubelet.faults import deadline, during, lost_answer


class KilledDriver:
    def __init__(self, process, rng):
        self.process = process
        self.rng = rng
        self.kills = 0

    def kill(self):
        if self.process.is_alive:
            self.kills += 1
            self.process.kill()

    @contextlib.asynccontextmanager
    async def kept_alive(self):
        keeper = asyncio.create_task(self._keep_alive())
        try:
            yield
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper

    async def _keep_alive(self):
        while True:
            if not self.process.is_alive:
                self.process.start()
            await asyncio.sleep(0.05)

    def upset(self, schedule, within):
        """What happens to the next call: often a kill at some moment of it, sometimes a lost answer or a kubelet that
        does not wait, or nothing."""
        chance = self.rng.random()
        if chance < 0.25:
            schedule(during(self.kill, after=self.rng.uniform(0, within)))
        elif chance < 0.4:
            schedule(lost_answer())
        elif chance < 0.5:
            schedule(deadline(self.rng.uniform(0.01, within)))
