"""Large answers are compressed for clients that take it."""

import asyncio
import gzip
import json

import pytest

from dray.api.protobuf import envelope
from tests.server.api import MAPS, PROTOBUF, config_map
from tests.server.test_application import Exchange, serving

LARGE = 300 * 1024


def story(*paths, method="GET", **headers):
    """The answers to one client after another, with maps that are large and one that is small."""

    async def tell(app):
        for name, size in (("large", LARGE), ("larger", LARGE), ("small", 10)):
            body = json.dumps(config_map(name, {"a": "x" * size})).encode()
            await Exchange(app, "POST", MAPS, body, content_type="application/json").run()
        return [await Exchange(app, method, path, **headers).run() for path in paths]

    return serving(tell)


def read(done, decode=json.loads):
    assert dict(done.headers)["content-encoding"] == "gzip"
    assert dict(done.headers)["vary"] == "Accept-Encoding"
    assert len(done.body) < LARGE / 10
    return decode(gzip.decompress(done.body))


@pytest.mark.parametrize("form", ["application/json", PROTOBUF])
def test_objects_and_lists(form):
    decode = json.loads if form == "application/json" else envelope.decode
    one, several = story(f"{MAPS}/large", MAPS, accept=form, accept_encoding="gzip, br;q=0.5")
    assert read(one, decode)["data"] == {"a": "x" * LARGE}
    assert [item["metadata"]["name"] for item in read(several, decode)["items"]] == ["large", "larger", "small"]
    assert dict(several.headers)["content-type"] == form


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (f"{MAPS}/small", {"accept_encoding": "gzip"}),
        (f"{MAPS}/large", {}),
        (f"{MAPS}/large", {"accept_encoding": "br"}),
        (MAPS, {"accept_encoding": "gzip;q=0"}),
    ],
)
def test_what_is_small_and_who_does_not_take_it(path, headers):
    [done] = story(path, **headers)
    assert "content-encoding" not in dict(done.headers)
    assert json.loads(done.body)["kind"].startswith("ConfigMap")


def test_a_head_and_a_watch_are_as_ever():
    async def tell(app):
        watch = Exchange(app, "GET", MAPS, query="watch=1", accept_encoding="gzip")
        watching = asyncio.ensure_future(watch.run())
        await watch.started.wait()
        watch.left.set()
        await watching
        head = await Exchange(app, "HEAD", "/api/v1/namespaces", accept_encoding="gzip").run()
        return watch, head

    for done in serving(tell):
        assert "content-encoding" not in dict(done.headers)
