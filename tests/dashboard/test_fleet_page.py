# SPDX-License-Identifier: Apache-2.0
"""The dashboard's page Fleet, against the real daemon and API processes."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from support.browser import Site, site
from support.dashboard_use import NAMELESS, gone, ready

from ltp_switcher.daemon.control.client import ControlClient, Json
from ltp_switcher.daemon.settings.fleet import FleetSection

PAGE = "#/fleet"


def test_where_sharing_is_off_the_fleet_s_page_says_how_to_turn_it_on(page: Page, place: Site) -> None:
    page.goto(place.url)
    page.get_by_role("link", name="Fleet").press("Enter")
    # The page changes a moment after the key: until then the four cards of Flows are still shown.
    expect(page.locator("nav [aria-current]")).to_have_text("Fleet")
    card = page.locator("main .card")
    expect(card.get_by_role("heading")).to_have_text("Sharing is off")
    expect(card).to_contain_text('share = "on"')
    expect(card).to_contain_text("systemctl restart ltp-switcher ltp-switcher-fleet")
    expect(page.locator("main table, main .tiles")).to_have_count(0)


@pytest.fixture(scope="module")
def sharing() -> Iterator[Site]:
    """A host that shares. Its daemon hears of the others from the test alone."""
    with (
        tempfile.TemporaryDirectory(prefix="ltp") as folder,
        site(Path(folder), fleet=FleetSection(share="on", tls="off")) as served,
    ):
        yield served


PREFIX, LONG_PREFIX = "203.0.113.0/24", "2001:db8:8a2e::/48"
LONG_NAME = "edge-with-a-name-of-the-greatest-length-" + "x" * 24


def tell_of_fleet(place: Site, **status: Json) -> None:
    """Tell the daemon what `ltp-switcher-fleet` would after an exchange with three other hosts."""

    def host(name: str, **changes: Json) -> Json:
        usual: dict[str, Json] = {
            "name": name, "version": "0.9.0", "age_s": 600.0, "lessons": 1234, "refused": 0,
            "other_version": 0, "other_model": 0, "compared": 20.0, "apart": 1.0, "disagrees": False,
            "shut_out": False,
        }  # fmt: skip
        return {**usual, **changes}

    usual: dict[str, Json] = {
        "host": "edge-1", "site": "north", "store": "127.0.0.1:6379", "reachable": True, "error": "",
        "lag_s": 700.0, "exchanges": 9, "failures": 0, "written": 41, "write_failures": 0, "read": 2345,
        "live": 2, "namesakes": 0,
    }  # fmt: skip
    sources: list[Json] = ["edge-2", "edge-3", "edge-4", "edge-5", "edge-6"]
    lessons: list[Json] = [
        {"prefix": PREFIX, "from": sources, "arms": {"bbr": [0.5, 0.0001], "vegas": [-0.5, 0.0001]}},
        {"prefix": LONG_PREFIX, "from": [LONG_NAME], "arms": {"vegas": [0.2, 0.0001]}},
    ]
    hosts = [
        host("edge-2"),
        host("edge-3", refused=17, apart=19.0, disagrees=True, age_s=180.0),
        host(LONG_NAME, shut_out=True, compared=0.0),
    ]
    with ControlClient(Path(place.daemon.config.daemon.control_socket)) as daemon:
        daemon.call("fleet.tell", status={**usual, **status}, hosts=hosts, lessons=lessons)


def test_the_fleet_s_hosts_and_what_came_from_where(page: Page, sharing: Site) -> None:
    tell_of_fleet(sharing)
    ready(page, sharing.url + PAGE)
    said = page.locator("main p[role=status]")
    expect(said).to_have_text("edge-1 shares with the hosts of the site north.")
    tiles = page.locator(".tile")
    for name, value in (
        ("Store", "reached 127.0.0.1:6379"), ("Lag", "12 min"), ("Hosts", "3 1 shut out"), ("Prefixes", "2"),
        ("Lessons written", "41 2,345 read"),
    ):  # fmt: skip
        expect(tiles.filter(has=page.get_by_text(name, exact=True)).locator("dd")).to_contain_text(value)
    hosts, prefixes = (
        page.get_by_role("region", name=name) for name in ("Other hosts of the site", "What came from where")
    )
    rows = hosts.locator("tbody tr")
    assert [row.locator("td").all_inner_texts() for row in rows.all()] == [
        ["edge-2", "1,234", "10 min ago", "0", "5.0 %", "0.9.0"],
        ["edge-3 disagrees", "1,234", "3 min ago", "17", "95 %", "0.9.0"],
        [f"{LONG_NAME} shut out", "1,234", "10 min ago", "0", "–", "0.9.0"],
    ]
    of_prefix = prefixes.locator("tbody tr").filter(has_text=PREFIX).locator("td")
    expect(of_prefix.nth(1)).to_have_text("5")
    expect(of_prefix.nth(2)).to_have_text("edge-2, edge-3, edge-4 and 2 more")
    expect(of_prefix.nth(5)).to_contain_text(re.compile(r"^bbr × 1\.6\d.*vegas × 0\.6\d"))
    # New figures leave the focus where it is.
    hosts.focus()
    tell_of_fleet(sharing, reachable=False, error="connection refused", write_failures=3)
    expect(said).to_have_text("The store is away: connection refused. This host goes on with its copy.")
    expect(tiles.locator("dd.warn")).to_have_text(
        [re.compile("^away"), re.compile("^12 min"), re.compile("refused 3$")]
    )
    expect(hosts).to_be_focused()
    tell_of_fleet(sharing, namesakes=1)
    expect(said).to_contain_text("Set fleet.host to another name.")


def test_the_fleet_s_page_fits_a_phone_and_keeps_its_addresses_whole(browser: Browser, sharing: Site) -> None:
    tell_of_fleet(sharing)
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, color_scheme="dark")
    page = ready(context.new_page(), sharing.url + PAGE)
    addresses = page.locator("td.address")
    expect(addresses).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    lines = """(cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
    }"""
    for text in [*addresses.all(), page.get_by_role("cell", name="edge-2", exact=True)]:
        assert text.evaluate(lines) == 1
    assert page.evaluate(NAMELESS) == []
    context.close()


def test_old_figures_of_the_fleet_are_marked(context: BrowserContext, sharing: Site) -> None:
    tell_of_fleet(sharing)
    page = ready(context.new_page(), sharing.url + PAGE)
    shown = page.locator("main > .plain")
    expect(shown).to_have_css("opacity", "1")
    with contextlib.ExitStack() as opened:
        gone("daemon gone", sharing, opened)
        expect(page.locator("#stale")).to_contain_text("The figures are from ")
        expect(shown).to_have_css("opacity", "0.7")
    expect(page.locator("#stale")).to_be_hidden()


def test_without_its_service_the_fleet_s_page_says_so(page: Page) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ltp") as folder,
        site(Path(folder), fleet=FleetSection(share="on", tls="off")) as silent,
    ):
        ready(page, silent.url + PAGE)
        expect(page.locator("main .bad")).to_contain_text("ltp-switcher-fleet does not run.")
        expect(page.get_by_text("No other host has been seen yet.")).to_be_visible()
        expect(page.locator("main [role=region]:visible")).to_have_count(0)
