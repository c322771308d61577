"""The page in a browser: sign-in, live data, addresses, keyboard, phone width, themes, accessibility."""

from __future__ import annotations

import os
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.web.browser import Browser, PageCluster, needs_browser

pytestmark = needs_browser

SHOTS = os.environ.get("DRAY_SCREENSHOTS", "")
"""A folder to put screenshots into."""


def shoot(browser: Browser, name: str) -> None:
    if SHOTS:
        browser.screenshot(Path(SHOTS) / f"{name}.webp")


def test_sign_in_with_a_code_shows_the_cluster_live(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 800)
    browser.open(cluster.page)
    browser.until_text("Sign-in code or token")
    assert browser.accessibility_problems() == []
    shoot(browser, "sign-in")
    field = browser.find("#credential")
    field.send_keys("AAAA-2222", Keys.ENTER)
    browser.until_text("is not valid", ".failure")
    field.clear()
    code = cluster.code()
    field.send_keys(code, Keys.ENTER)
    browser.until_text("Live")
    browser.until_text("5 nodes with devices, 40 GPUs, 50 network devices, 10 CPU devices")
    assert code not in browser.driver.current_url
    shoot(browser, "cluster")


def test_every_view_has_no_serious_accessibility_problem_in_both_themes(browser: Browser, cluster: PageCluster) -> None:
    browser.size(1280, 800)
    cluster.sign_in(browser)
    links = browser.run("return [...document.querySelectorAll('.menu a')].map((each) => each.href)")
    assert links
    for scheme in ("light", "dark"):
        browser.theme(scheme)
        for link in links:
            browser.open(link)
            browser.until(lambda: browser.run("return document.querySelector('.view-head')"), "head of the view")
            assert browser.accessibility_problems() == [], (scheme, link)
            shoot(browser, f"{link.rpartition('/')[2]}-{scheme}")
    assert [text for text in browser.messages() if "Content Security Policy" in text] == []


def test_every_view_fits_a_phone(browser: Browser, cluster: PageCluster) -> None:
    browser.size(360, 740)
    cluster.sign_in(browser)
    for link in browser.run("return [...document.querySelectorAll('.menu a')].map((each) => each.href)"):
        browser.open(link)
        browser.until(lambda: browser.run("return document.querySelector('.view-head')"), "head of the view")
        wide = browser.run("return document.documentElement.scrollWidth")
        assert wide <= 360, (link, wide)
        rights = browser.run(
            "return [...document.querySelectorAll('.menu a')].map((each) => each.getBoundingClientRect().right)"
        )
        assert max(rights) <= 360, rights
        assert browser.accessibility_problems() == [], link
        shoot(browser, f"{link.rpartition('/')[2]}-phone")
    browser.size(1280, 800)


def test_sign_out_ends_the_session(browser: Browser, cluster: PageCluster) -> None:
    cluster.sign_in(browser)
    browser.run("[...document.querySelectorAll('button')].find((each) => each.innerText === 'Sign out').click()")
    browser.until_text("You have signed out.")
    browser.open(cluster.page)
    browser.until_text("Sign-in code or token")


_FOLLOW = """
const done = arguments[0];
const [timeout, fetched, told] = [window.setTimeout, window.fetch, []];
window.setTimeout = (task, time) => timeout(task, time / 100);
window.fetch = async () => new Response(new ReadableStream({
  start(controller) { controller.enqueue(new TextEncoder().encode('event: snapshot\\ndata: {}\\n\\n')); },
}));
import("/ui/static/stream.js").then(async ({ follow }) => {
  const controller = new AbortController();
  await follow("any", "", { signal: controller.signal, take() {}, tell(state, text) {
    told.push(`${state} ${text}`);
    if (told.length === 3) controller.abort();
  } });
  [window.setTimeout, window.fetch] = [timeout, fetched];
  done(told);
});
"""


_SLOW = """
const done = arguments[0];
const modules = ["html.js", "parts/answer.js"].map((name) => import(`/ui/static/${name}`));
Promise.all(modules).then(([{ html, render }, { useAnswer }]) => {
  const fetched = window.fetch;
  const shown = [];
  let [asked, found] = [0, null];
  const later = (resolve) => setTimeout(() => resolve(Response.json({ number: (asked += 1) })), 300);
  window.fetch = (url, ...more) => (url === "/ui/call/any/any" ? new Promise(later) : fetched(url, ...more));
  const Asking = () => {
    found = useAnswer("any", "any", { same: true });
    if (found.answer) shown.push(found.answer.number);
    return null;
  };
  render(html`<${Asking} />`, document.createElement("div"));
  const timer = setInterval(() => found.again(), 40);
  setTimeout(() => { clearInterval(timer); window.fetch = fetched; done([[...new Set(shown)], asked]); }, 1500);
});
"""


def test_an_answer_that_takes_long_is_shown_while_things_change(browser: Browser, cluster: PageCluster) -> None:
    """It is asked for again 25 times a second, and takes longer than that."""
    browser.open(cluster.page)
    shown, asked = browser.driver.execute_async_script(_SLOW)
    assert shown[:2] == [1, 2]
    assert asked <= 5


def test_a_server_that_says_nothing_is_not_live(browser: Browser, cluster: PageCluster) -> None:
    """Time runs a hundred times as fast."""
    browser.open(cluster.page)
    told = browser.driver.execute_async_script(_FOLLOW)
    assert told == ["live ", "waiting Nothing comes from the server.", "live "]
