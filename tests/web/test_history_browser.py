"""History in a browser: charts on one axis, the time cursor by keyboard, and events."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.web.browser import Browser, PageCluster, needs_browser
from tests.web.test_page_browser import shoot

pytestmark = needs_browser


def labels(browser: Browser) -> str:
    """What a screen reader says about the charts."""
    return str(browser.run("return [...document.querySelectorAll('.chart svg')].map((e) => e.ariaLabel).join('|')"))


def test_charts_have_the_last_hours_and_a_cursor(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 1000)
    cluster.sign_in(browser, "/history")
    for title in ("Allocation", "Waiting", "Fragmentation", "Events", "Idle devices"):
        browser.until_text(title, "main")
    browser.until(lambda: "Allocation: all devices 0 %" in labels(browser), "first sample")
    cluster.dray("run", "--gpu", "4", "--detach", "--name", "busy", "--", "sleep", "600")
    browser.until_text("Pod default/busy", "tbody")
    browser.until(lambda: "Allocation: all devices 4 %" in labels(browser), "sample with devices in use")
    browser.find(".time-cursor input").send_keys(Keys.HOME)
    browser.until(lambda: browser.text(".time-cursor output") != "now", "time of the cursor")
    assert browser.accessibility_problems() == []
    shoot(browser, "history")
    browser.open(f"{cluster.page}/history?hours=6&type=Warning")
    browser.until_text("6 hours in steps of 60 s")
    browser.size(360, 740)
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    shoot(browser, "history-phone")
