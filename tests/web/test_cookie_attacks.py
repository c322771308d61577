"""Attacks with cookies: browsers send the cookies of a host to all of its ports, also to those of other users."""

from __future__ import annotations

import pytest

from tests.web.asgi import OWN, Viewer
from tests.web.test_page import stage

SIBLING = "127.0.0.1:9999"
PROTECTED = [("GET", "/ui/session"), ("POST", "/ui/call/pods/echo"), ("GET", "/ui/stream/pods")]


@pytest.mark.parametrize("key", ["", "x", "ü", "A" * 5000])
async def test_a_stolen_cookie_without_the_key_of_its_session_is_worth_nothing(key: str) -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        for method, path in PROTECTED:
            thief = {**OWN, "cookie": viewer.cookie, "x-dray-key": key}
            assert (await Viewer(made.page).send(method, path, {}, headers=thief)).status == 401
        await Viewer(made.page).send("DELETE", "/ui/session", headers={**OWN, "cookie": viewer.cookie})
        assert (await viewer.send("GET", "/ui/session")).status == 200


async def test_the_key_of_another_session_does_not_fit() -> None:
    async with stage() as made:
        victim, other = await made.signed_in(), await made.signed_in("ann-token")
        mixed = {**OWN, "cookie": victim.cookie, "x-dray-key": other.key}
        assert (await Viewer(made.page).send("GET", "/ui/session", headers=mixed)).status == 401


async def test_a_page_at_another_port_cannot_exchange_the_session() -> None:
    async with stage() as made:
        viewer, attacker = await made.signed_in(), await made.signed_in("ann-token")
        # The cookie with the longer path comes first; the server does not see which is which.
        for cookies in (f"{attacker.cookie}; {viewer.cookie}", f"{viewer.cookie}; {attacker.cookie}"):
            sent = {**OWN, "cookie": cookies, "x-dray-key": viewer.key}
            assert (await viewer.send("GET", "/ui/session", headers=sent)).json["user"] == "system:admin"
        alone = {**OWN, "cookie": attacker.cookie, "x-dray-key": viewer.key}
        assert (await viewer.send("GET", "/ui/session", headers=alone)).status == 401


async def test_pages_at_two_ports_of_a_machine_keep_their_sessions() -> None:
    async with stage() as made:
        names = []
        for host in ("127.0.0.1:8100", SIBLING, "127.0.0.1", "[::1]:8100"):
            headers = {**OWN, "host": host}
            answer = await Viewer(made.page).send("POST", "/ui/session", {"token": "ann-token"}, headers=headers)
            names.append(answer.header("set-cookie").partition("=")[0])
        assert names == ["dray_session_8100", "dray_session_9999", "dray_session", "dray_session_8100"]


async def test_a_heap_of_cookies_is_looked_through_in_bounds() -> None:
    async with stage() as made:
        viewer = await made.signed_in()
        heap = "; ".join(f"dray_session_8100={number}" for number in range(3000))
        sent = {**OWN, "cookie": f'{heap}; a="; \x01=;;; {viewer.cookie}', "x-dray-key": viewer.key}
        assert (await viewer.send("GET", "/ui/session", headers=sent)).status == 401


@pytest.mark.parametrize("host", ["127.0.0.1:port", "127.0.0.1:99999", "127.0.0.1:8100@evil.example", "127.0.0.1:-1"])
async def test_hosts_with_odd_ports_are_refused(host: str) -> None:
    async with stage() as made:
        odd = {**OWN, "host": host}
        answer = await Viewer(made.page).send("POST", "/ui/session", {"token": "ann-token"}, headers=odd)
        assert answer.status in (400, 403)
        assert not answer.header("set-cookie")
