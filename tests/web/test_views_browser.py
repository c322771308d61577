"""Devices, claims, actions, history, and markup in a browser. All tests share one cluster: to start it takes long."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

from selenium.webdriver.common.keys import Keys

from dray.testing import objects
from tests.web.browser import Browser, PageCluster, needs_browser
from tests.web.test_page_browser import SHOTS, shoot

pytestmark = needs_browser

DRIVER = 'device.driver == "gpu.nvidia.com"'
SELECTOR = f'{DRIVER} && device.attributes["gpu.nvidia.com"].productName.contains("H100")'
MARKUP = "<img src=x onerror=window.pwned=1>"
QUOTED = f'device.driver != "{MARKUP}"'
DEVICE = "gpu.example.com/evil/gpu-0"


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


def keep_busy(cluster: PageCluster) -> None:
    """Runs jobs for some minutes, so that a picture of the history has something to show."""
    for number, gpus in enumerate((8, 8, 2, 4, 8, 1, 8, 8, 3)):
        cluster.dray("run", "--gpu", str(gpus), "--detach", "--name", f"job-{number}", "--", "sleep", "600")
        time.sleep(18)
        if number % 3 == 2:
            cluster.dray("delete", "pod", f"job-{number - 1}")


def labels(browser: Browser) -> str:
    """What a screen reader says about the charts."""
    return str(browser.run("return [...document.querySelectorAll('.chart svg')].map((e) => e.ariaLabel).join('|')"))


def test_charts_have_the_last_hours_and_a_cursor(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 1000)
    cluster.sign_in(browser, "/history")
    for title in ("Allocation", "Waiting", "Fragmentation", "Events", "Idle devices"):
        browser.until_text(title, "main")
    before = browser.until(lambda: "Allocation: all" in labels(browser) and labels(browser), "first sample")
    cluster.dray("run", "--gpu", "4", "--detach", "--name", "busy", "--", "sleep", "600")
    browser.until_text("Pod default/busy", "tbody")
    browser.until(lambda: labels(browser).split(",")[0] != before.split(",")[0], "sample with more devices in use")
    if SHOTS:
        keep_busy(cluster)
    browser.find(".time-cursor input").send_keys(Keys.HOME)
    browser.until(lambda: browser.text(".time-cursor output") != "now", "time of the cursor")
    assert browser.accessibility_problems() == []
    browser.find(".time-cursor input").send_keys(Keys.END)
    shoot(browser, "history")
    browser.open(f"{cluster.page}/history?hours=6&type=Warning")
    browser.until_text("6 hours in steps of 60 s")
    browser.size(360, 740)
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    shoot(browser, "history-phone")


def manifests() -> str:
    named = {"productName": MARKUP, "note": "</script><script>window.pwned=1</script>"}
    selector = f'device.attributes["gpu.example.com"].productName != "{MARKUP}"'
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "evil", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": MARKUP},
        "type": "Warning",
        "reason": MARKUP,
        "message": MARKUP,
        "lastTimestamp": "2026-01-01T10:00:00Z",
        "source": {"component": MARKUP},
    }
    made = [
        objects.resource_slice("evil", objects.device("gpu-0", attributes=named), nodeName="dgx-h100-0"),
        objects.device_class("evil", 'device.driver == "gpu.example.com"'),
        objects.claim("evil", objects.request(deviceClassName="evil", selectors=[selector]), namespace="default"),
        objects.pod("evil", claims=["evil"], namespace="default", annotations={"note": MARKUP}),
        event,
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": made})


def test_markup_is_shown_as_text_in_every_view(browser: Browser, cluster: PageCluster) -> None:
    cluster.dray("apply", "-f", "-", stdin=manifests())
    browser.size(1280, 900)
    cluster.sign_in(browser, f"/devices?open={quote(DEVICE, safe='')}&selector={quote(MARKUP)}")
    browser.until_text(MARKUP, ".details")
    browser.until_text("Line 1, column", ".selector")
    pages = browser.run("return [...document.querySelectorAll('.menu a')].map((each) => each.href)")
    pages += [
        f"{cluster.page}/devices/claims?open=default%2Fevil",
        f"{cluster.page}/devices?selector={quote(QUOTED)}",
        f"{cluster.page}/{quote(MARKUP)}",
        f"{cluster.page}/devices?q={quote(MARKUP)}&model={quote(MARKUP)}&sort={quote(MARKUP)}",
        f"{cluster.page}/waiting/pod/default/evil",
    ]
    for page in pages:
        browser.open(page)
        browser.until(lambda: browser.run("return document.querySelector('.live-live')"), f"live view {page}")
        assert browser.run("return document.querySelectorAll('main img, main script').length") == 0, page
        assert browser.run("return window.pwned") is None, page
    assert [text for text in browser.messages() if "Content Security Policy" in text] == []


def test_names_of_javascript_are_names_like_others(browser: Browser, cluster: PageCluster) -> None:
    """Attributes may be called __proto__, and models and classes constructor."""
    attributes = {"__proto__": "polluted", "constructor": "shown", "productName": "__proto__"}
    made = [
        objects.resource_slice("names", objects.device("gpu-0", attributes=attributes), nodeName="dgx-h100-0"),
        objects.device_class("constructor", 'device.driver == "gpu.example.com"'),
    ]
    browser.size(1280, 900)
    cluster.sign_in(browser, "/devices?q=names&open=gpu.example.com%2Fnames%2Fgpu-0")
    # It arrives as a change of the open document.
    cluster.dray("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
    browser.until_text("polluted", ".details")
    browser.until_text("__proto__", ".models")
    browser.messages()
    for address in (
        "devices?q=names&class=constructor&selector=true",
        "devices?model=__proto__",
        "waiting/constructor",
        "waiting/__proto__",
        "queues/constructor/__proto__",
        "devices/claims?open=__proto__",
        "cluster?node=constructor&device=__proto__&colour=__proto__&show=toString",
        "history?hours=constructor&sort=__proto__",
        "waiting/%E0%A4%A",
        "try?example=__proto__&of=constructor",
    ):
        browser.open(f"{cluster.page}/{address}")
        browser.until(lambda: browser.run("return document.querySelector('.live-live')"), f"live view {address}")
        assert browser.run("return Object.keys(Object.prototype).length || ({}).polluted || 0") == 0
        assert [text for text in browser.messages() if "Error" in text] == [], address
