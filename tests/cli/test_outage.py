"""`dray scheduler` while its server is away."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

from tests.cli.running import Running, eventually
from tests.scheduling_loop.api_servers import DrayServer


def answer(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_an_outage_shows_in_the_log_and_in_readyz(tmp_path: Path) -> None:
    server = DrayServer(tmp_path)
    server.start()
    log = tmp_path / "scheduler.log"
    options = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--no-leader-elect", "--metrics-port", "0")
    with log.open("w") as written:
        scheduler = Running("scheduler", *options, log=written)
        try:
            readyz = scheduler.line().rpartition("metrics at ")[2].replace("/metrics", "/readyz")
            eventually(lambda: answer(readyz) == (200, "ok"))
            server._end(server._process, kill=True)
            status, text = eventually(lambda: found if (found := answer(readyz))[0] == 503 else None)
            assert re.match(rf"{server.url} has not answered for \d+ s: .*", text), (status, text)
            server.start()
            eventually(lambda: answer(readyz) == (200, "ok"))
        finally:
            scheduler.stop()
            scheduler.process.communicate()
            server._end(server._process, kill=True)
    said = log.read_text().splitlines()
    lines = [line.partition("dray.client: ")[2] for line in said if "dray.client: " in line]
    assert len(lines) == 2, lines
    assert lines[0].startswith(f"{server.url} does not answer: ")
    assert re.fullmatch(rf"{server.url} answers again, after \d+ s", lines[1])
