"""A headless Chromium for tests of the page, and a `dray up` with a simulated fleet for it to look at.

Tests are skipped where Debian's packages chromium and chromium-driver are not installed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import JavascriptException, StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.cli.running import DRAY, running

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no browser: apt-get install chromium chromium-driver"
)
PATIENCE = 240.0
"""Seconds for one thing to happen: machines may have much to do."""
_SCRIPT_PATIENCE = 100.0
"""Selenium itself gives up after 120 seconds, and then every later command fails too."""
AXE = Path(__file__).parent / "vendor/axe.min.js"
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --force-color-profile=srgb --hide-scrollbars "
    "--ignore-certificate-errors --lang=en"
)


class Browser:
    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def size(self, width: int, height: int) -> None:
        """Sets the size of the page; a window cannot be as narrow as a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def theme(self, scheme: str) -> None:
        """light or dark, as the system of the viewer has it."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.until(lambda: self.driver.find_elements(By.CSS_SELECTOR, selector), f"an element {selector}")[0]

    def text(self, selector: str = "body") -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until(self, ask: Callable[[], Any], what: str) -> Any:
        """Returns the first true answer; fails with what was waited for."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if found := ask():
                    return found
            except (StaleElementReferenceException, JavascriptException):
                pass
            time.sleep(0.05)
        raise AssertionError(f"no {what} within {PATIENCE} s; the page shows:\n{self.text()}\n{self.messages()}")

    def until_text(self, text: str, selector: str = "body") -> None:
        self.until(lambda: text in self.text(selector), f"text {text!r} in {selector}")

    def messages(self) -> list[str]:
        """What the console of the browser has said since it was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def accessibility_problems(self) -> list[str]:
        """Serious and critical findings of axe."""
        # The policy of the page forbids scripts of others: the debugger runs it.
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
        asked = {"expression": "axe.run().then((found) => JSON.stringify(found.violations))", "awaitPromise": True}
        found = json.loads(self.driver.execute_cdp_cmd("Runtime.evaluate", asked)["result"]["value"])
        return [
            f"{each['id']}: {each['help']} {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]

    def screenshot(self, path: Path) -> None:
        """A picture as PNG or WebP, as the name says."""
        path.parent.mkdir(parents=True, exist_ok=True)
        asked = {"format": "webp", "quality": 70} if path.suffix == ".webp" else {"format": "png"}
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", asked)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browsing() -> Iterator[Browser]:
    options = Options()
    options.binary_location = CHROMIUM or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="dray-browser-", ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        driver.set_script_timeout(_SCRIPT_PATIENCE)
        try:
            yield Browser(driver)
        finally:
            driver.quit()


class PageCluster:
    """A `dray up` and where its page is."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.page = f"{url}/ui"
        self.kubeconfig = folder / "dray.kubeconfig"

    def dray(self, *arguments: str, stdin: str = "") -> str:
        """Runs a command against the cluster, and returns what it printed."""
        done = subprocess.run(
            [*DRAY, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def code(self, kubeconfig: Path | None = None) -> str:
        printed = self.dray("ui", "--code") if kubeconfig is None else _code_of(kubeconfig)
        found = re.search(r"code: (\S+)", printed)
        assert found, printed
        return found[1]

    def sign_in(self, browser: Browser, path: str = "") -> None:
        browser.open(self.page + path)
        browser.until(lambda: browser.text("main"), "page")
        if browser.run("return Boolean(document.querySelector('#credential'))"):
            browser.find("#credential").send_keys(self.code())
            browser.find("button.primary").click()
        browser.until(lambda: browser.run("return document.querySelector('.live-live')"), "live view")


def _code_of(kubeconfig: Path) -> str:
    command = [*DRAY, "ui", "--code", "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


@contextmanager
def page_cluster(folder: Path, *arguments: str) -> Iterator[PageCluster]:
    with running("up", "--port", "0", *arguments, cwd=folder) as process:
        lines = []
        while not lines or not lines[-1].startswith("export KUBECONFIG="):
            lines.append(process.line())
            assert lines[-1], lines
        url = next(found[1] for line in lines if (found := re.search(r"page at (\S+)/ui", line)))
        yield PageCluster(folder, url)
        process.stop()
