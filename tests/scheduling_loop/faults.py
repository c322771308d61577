"""A way to a server that loses requests and answers, refuses, dawdles and can be cut for good."""

import asyncio

import msgspec

from dray.client.api import ApiClient
from dray.client.errors import ConnectionFailed
from dray.client.retries import Backoff, Retries
from dray.client.transport import Answer

_REFUSALS = {
    503: b'{"kind":"Status","code":503,"reason":"ServiceUnavailable","message":"not now"}',
    429: b'{"kind":"Status","code":429,"reason":"TooManyRequests","message":"slow down"}',
    403: b'{"kind":"Status","code":403,"reason":"Forbidden","message":"may not"}',
    409: b'{"kind":"Status","code":409,"reason":"Conflict","message":"so it is said"}',
    500: b'{"kind":"Status","code":500,"reason":"InternalError","message":"oops"}',
}


class FaultyTransport:
    """`rate` is the share of writes that go wrong, half of them after they were done."""

    def __init__(self, inner, random, *, rate=0.0, slowest=0.0, watch_delay=0.0):
        self._inner = inner
        self.watch_seconds = inner.watch_seconds
        self._random = random
        self.rate = rate
        self.slowest = slowest
        self.watch_delay = watch_delay
        self.faults = 0
        self.drops = ()
        """Members of a status that the server does not know, as paths."""
        self.heard = []
        """What was asked for, as (method, path)."""
        self._planned = []
        self._cut = False

    def plan(self, method, path, fate, times=1):
        """The next writes whose path ends so: lost `before` or `after` they are done, or refused with a status."""
        self._planned += [(method, path, fate)] * times

    def _planned_fate(self, request):
        for plan in self._planned:
            if request.method == plan[0] and request.path.endswith(plan[1]):
                self._planned.remove(plan)
                return plan[2]
        return None

    def cut(self):
        """Whoever is on this side is dead: nothing it sends arrives, and it hears nothing any more."""
        self._cut = True

    async def send(self, request):
        self._check()
        await self._dawdle()
        self.heard.append((request.method, request.path))
        request = self._stripped(request)
        fate = self._planned_fate(request)
        if fate is None and request.method != "GET" and self._random.random() < self.rate:
            fate = self._random.choice(("before", self._random.choice((503, 429, 409, 500)), "after", "hidden"))
        if fate is None:
            answer = await self._inner.send(request)
            await self._dawdle()
            return answer
        self.faults += 1
        if fate == "before":
            raise ConnectionFailed("lost on the way there", sent=True)
        if fate in _REFUSALS:
            return Answer(fate, {"content-type": "application/json"}, _REFUSALS[fate])
        await self._inner.send(request)
        await self._dawdle()
        if fate == "after":
            raise ConnectionFailed("lost on the way back", sent=True)
        # It was done, and is said not to have been: as behind a proxy that gave up.
        return Answer(504, {}, b"gateway timeout")

    def _stripped(self, request):
        if not self.drops or not request.path.endswith("/status"):
            return request
        document = msgspec.json.decode(request.body)
        for path in self.drops:
            document = _without(document, ("status", *path.split(".")))
        return msgspec.structs.replace(request, body=msgspec.json.encode(document))

    async def stream(self, request):
        self._check()
        return _SlowStream(await self._inner.stream(request), self)

    async def close(self):
        await self._inner.close()

    async def _dawdle(self):
        self._check()
        if self.slowest:
            await asyncio.sleep(self._random.random() * self.slowest)
        self._check()

    def _check(self):
        if self._cut:
            raise ConnectionFailed("cut", sent=False)


class _SlowStream:
    def __init__(self, inner, way):
        self._inner = inner
        self._way = way
        self.status, self.headers = inner.status, inner.headers

    async def __aiter__(self):
        async for piece in self._inner:
            if self._way.watch_delay:
                await asyncio.sleep(self._way._random.random() * self._way.watch_delay)
            if self._way._cut:
                raise ConnectionFailed("cut", sent=True)
            yield piece

    async def close(self):
        await self._inner.close()


def quick_retries(random):
    return Retries(attempts=3, backoff=Backoff(first=0.01, longest=0.1), random=random.random)


def client_over(transport, random):
    return ApiClient(transport, retries=quick_retries(random))


def _without(value, path):
    """A copy without the member; in lists, without it in each element."""
    if isinstance(value, list):
        return [_without(each, path) for each in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    rest = {name: each for name, each in value.items() if name != path[0]}
    return rest if len(path) == 1 else {**rest, path[0]: _without(value[path[0]], path[1:])}
