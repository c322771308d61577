"""Devices and claims in a browser: a selector, the details of a device by keyboard, and the timeline of a claim."""

from __future__ import annotations

from urllib.parse import quote

from selenium.webdriver.common.keys import Keys

from tests.web.browser import Browser, PageCluster, needs_browser
from tests.web.test_page_browser import shoot

pytestmark = needs_browser

DRIVER = 'device.driver == "gpu.nvidia.com"'
SELECTOR = f'{DRIVER} && device.attributes["gpu.nvidia.com"].productName.contains("H100")'


def test_a_selector_is_typed_and_its_matches_are_shown(browser: Browser, cluster: PageCluster) -> None:
    cluster.dray("run", "--gpu", "2", "--detach", "--name", "sweep", "--", "sleep", "600")
    browser.size(1280, 900)
    cluster.sign_in(browser, "/devices")
    field = browser.find(".selector textarea")
    field.send_keys(SELECTOR[:-1])
    browser.until_text("Line 1, column", ".selector")
    field.send_keys(")")
    browser.until_text("How many could I get at once?")
    browser.until_text("do not match")
    assert browser.accessibility_problems() == []
    shoot(browser, "devices-selector")
    browser.open(f"{cluster.page}/devices?selector={quote(DRIVER)}&state=allocated")
    browser.until_text("default/sweep", "tbody")
    browser.size(360, 740)
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    shoot(browser, "devices-selector-phone")


def test_rows_open_by_keyboard_and_attributes_become_conditions(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 900)
    cluster.sign_in(browser, "/devices?q=gpu-0+dgx-h100-0&model=NVIDIA+H100+80GB+HBM3")
    row = browser.find("tbody tr")
    row.send_keys(Keys.ENTER)
    browser.until_text("Attributes", ".details")
    assert "open=gpu.nvidia.com%2Fdgx-h100-0%2Fgpu-0" in browser.driver.current_url
    assert browser.accessibility_problems() == []
    shoot(browser, "devices-details")
    browser.run("document.querySelector('[aria-label=\"Add productName to the selector\"]').click()")
    browser.until(lambda: "productName" in browser.run("return document.querySelector('textarea').value"), "condition")
    browser.find(".details").send_keys(Keys.ESCAPE)
    browser.until(lambda: not browser.run("return document.querySelector('.details')"), "closed details")


def test_a_claim_has_a_timeline(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 900)
    cluster.sign_in(browser, "/devices/claims?open=default%2Fsweep")
    browser.until_text("prepared no later than", ".timeline")
    assert browser.accessibility_problems() == []
    shoot(browser, "claims-timeline")


def test_a_device_is_tainted_after_a_dry_run_and_a_confirmation(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 900)
    cluster.sign_in(browser, "/devices?q=p4d-24xlarge-1&open=gpu.nvidia.com%2Fp4d-24xlarge-1%2Fgpu-7")
    browser.until_text("Taint device…", ".details")
    browser.run(
        "[...document.querySelectorAll('.actions button')].find((each) => each.innerText === 'Taint device…').click()"
    )
    browser.until_text("Dry run: DeviceTaintRule would be created", "dialog")
    assert browser.accessibility_problems() == []
    shoot(browser, "action")
    browser.find("dialog button.primary").click()
    browser.until_text("was created", ".actions")
    browser.until_text("tainted", ".details .facts")
    browser.until_text("Release from taint…", ".details")
    shoot(browser, "action-done")
