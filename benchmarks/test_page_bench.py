"""The cluster view with 5,000 nodes of eight devices: first picture, frames while panning, memory, load of the server.

The page runs in headless Chromium, which draws without a graphics processor. The server is the API server of this
process with the page mounted, without scheduler and controllers; its load is the processor time of the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import Browser, browsing, needs_browser

pytestmark = needs_browser

NODES = int(os.environ.get("DRAY_PAGE_NODES", "5000"))
SERVER = Path(__file__).parent / "page_server.py"
VIEWERS, CHANGES, SECONDS = 10, 100, 8


@contextmanager
def serving() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, str(SERVER), str(NODES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str], command: str) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(command + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def memory(browser: Browser) -> float:
    """Megabytes that only the process of the page has; shared libraries of the browser are not counted."""
    browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    folder = browser.driver.capabilities["chrome"]["userDataDir"]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
            if "--type=renderer" in command and folder in command:
                lines = (process / "smaps_rollup").read_text().splitlines()
                found.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1000)
        except OSError:
            continue
    return max(found)


def first_picture(browser: Browser, url: str) -> int:
    """Milliseconds from the start of loading until the map is complete, by the counter of the page."""
    browser.open("about:blank")
    browser.open(f"{url}/ui/cluster")
    browser.until(lambda: browser.run("return document.querySelector('canvas')?.dataset.firstPicture"), "map")
    return int(browser.find("canvas").get_attribute("data-first-picture") or 0)


def pan(browser: Browser) -> list[int]:
    """Frames in each of the last seconds, by the counter of the page, while the map is dragged."""
    canvas = browser.find("canvas.cluster-map")
    counts = []
    script = """
      const [canvas, done] = [arguments[0], arguments[1]];
      const box = canvas.getBoundingClientRect();
      const send = (type, clientX, clientY) =>
        canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX, clientY, bubbles: true }));
      canvas.setPointerCapture = () => {};
      const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
      send("pointerdown", x, y);
      const began = performance.now();
      const step = () => {
        const time = performance.now() - began;
        send("pointermove", x + 300 * Math.sin(time / 400), y + 150 * Math.sin(time / 300));
        if (time < 2500) requestAnimationFrame(step);
        else { send("pointerup", x, y); done(Number(canvas.dataset.frames)); }
      };
      requestAnimationFrame(step);
    """
    for level in range(3):
        browser.run("document.querySelectorAll('.map-buttons button')[arguments[0]].click()", level)
        counts.append(int(browser.driver.execute_async_script(script, canvas)))
    return counts


def test_cluster_view_of_5000_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as (url, process), browsing() as browser:
        # The least of three: other work on the machine only adds to it.
        alone = min(ask(process, f"load 0 {CHANGES} {SECONDS}")["percent"] for _ in range(3))
        browser.size(1440, 900)
        cold = []
        for _ in range(4):
            ask(process, "forget")
            cold.append(first_picture(browser, url))
        pictures = [first_picture(browser, url) for _ in range(3)]
        frames = pan(browser)
        used = memory(browser)
        if folder := os.environ.get("DRAY_SCREENSHOTS"):
            browser.run("document.querySelector('.map-buttons button').click()")
            time.sleep(0.5)
            browser.screenshot(Path(folder) / "cluster-5000.png")
        browser.open("about:blank")
        loads = [ask(process, f"load {VIEWERS} {CHANGES} {SECONDS}") for _ in range(3)]
        watched = min(loads, key=lambda each: each["percent"])
    part = watched["percent"] - alone
    with capsys.disabled():
        print(f"\ncluster view, {NODES} nodes × 8 devices")
        print(f"first picture of the first viewer, for whom the server reads the cluster, after {cold} ms; limit 1500")
        print(f"first picture of later viewers after {pictures} ms; limit 1500")
        print(f"frames in a second while panning {frames} (racks, nodes, devices); limit 30")
        print(f"memory of the page {used:.0f} MB; limit 150")
        print(
            f"server with {CHANGES} changes a second: {alone} % of a core; "
            f"with {VIEWERS} viewers {watched['percent']} %"
        )
        print(f"the part of the page: {part:.1f} %; limit 5; {watched['frames']} frames to each viewer")
    # A machine with other work gives this one a part of its processors.
    if os.getloadavg()[0] < 2 * (os.cpu_count() or 1):
        assert min(cold) < 1500
    assert min(pictures) < 1500
    assert min(frames) >= 30
    assert used < 150
    assert part < 5
