"""Asks /livez and /readyz of a server twenty times a second until it is stopped."""

from __future__ import annotations

import sys

from tests.attacks.observer import observe
from tests.attacks.requests import request


def probe(url: str) -> None:
    for path in ("/livez", "/readyz"):
        answer = request(url, "GET", path)
        assert answer.status == 200, f"{path}: {answer.status} {answer.body[:500]!r}"


if __name__ == "__main__":
    observe(lambda: probe(sys.argv[1]), int(sys.argv[2]), pause=0.05)
