# SPDX-License-Identifier: Apache-2.0
"""The dashboard in headless Chromium, against the real daemon and API processes."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect
from support.browser import Site, site
from support.colours import contrast, luminance
from support.dashboard_use import DRAWN, NAMELESS, add_to_pool, choose_k, gone, pin
from support.dashboard_use import ready as opened
from support.live_kernel import NO_ARM, PATHS
from support.live_kernel import Path as PathOf

from ltp_switcher import palette

CELLULAR = "4713"
PHONE = {"width": 360, "height": 740}
PAGES = ("#/", f"#/flows/{CELLULAR}", "#/gain", "#/fleet", "#/settings")
PIXELS = "canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data"
PAINTED = f"""([canvas, rgb]) => {{
    const pixels = {PIXELS};
    const like = (at) => rgb.every((value, part) => Math.abs(pixels[at + part] - value) < 3);
    for (let at = 0; at < pixels.length; at += 4) if (like(at)) return true;
    return false;
}}"""
# Notes the times that a chart writes, and their widths in CSS pixels.
NOTE_TIMES = """
    window.times = {};
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        if (/^\\d\\d:\\d\\d$/.test(text)) times[text] = this.measureText(text).width / devicePixelRatio;
        return write.call(this, text, ...rest);
    };
"""
ROOM = """(chart) => chart.querySelector('canvas').getBoundingClientRect().right
    - chart.querySelector('.u-over').getBoundingClientRect().right"""
SLOW_ARMS = """
    const fetchAtOnce = window.fetch;
    window.fetch = async (path, ...rest) => {
        if (path === "v1/arms") await new Promise((done) => setTimeout(done, 500));
        return fetchAtOnce(path, ...rest);
    };
"""


def ready(page: Page, place: Site, at: str = "#/") -> Page:
    return opened(page, place.url + at)


def ask(place: Site, method: str, path: str, body: object = None) -> httpx.Response:
    with place.api.client() as client:
        answer = client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer


def test_nothing_comes_from_elsewhere_and_nothing_is_inline(page: Page, place: Site) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(place.url)
    assert answer is not None
    assert (
        "default-src 'none'; script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
    )
    assert "unsafe" not in answer.headers["content-security-policy"]
    for at in PAGES:
        ready(page, place, at)
        page.wait_for_timeout(1500)
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(place.url).netloc}


def test_the_policy_is_in_force(context: BrowserContext, place: Site) -> None:
    page = ready(context.new_page(), place)
    violated = page.evaluate(
        "() => new Promise((told) => { document.addEventListener('securitypolicyviolation', (e) =>"
        " told(e.effectiveDirective)); const s = document.createElement('img');"
        " s.src = 'https://example.org/x.png'; document.body.append(s); })"
    )
    assert violated == "img-src"


def test_the_busiest_flows_with_their_arms_move(page: Page, place: Site) -> None:
    ready(page, place)
    rows = page.locator("tbody tr")
    expect(rows.first).to_be_visible()
    expect(rows.filter(has_text=PATHS[7].remote)).to_have_count(1)
    shown = page.locator("tbody td.number").first
    before = shown.inner_text()
    expect(shown).not_to_have_text(before)
    assert page.locator("canvas.spark").first.evaluate(DRAWN)
    assert page.locator(".chart canvas").first.evaluate(DRAWN)


def test_a_filter_leaves_the_flows_that_match_and_a_wrong_one_is_explained(page: Page, place: Site) -> None:
    ready(page, place)
    page.get_by_label("Remote network").fill("192.0.2.0/24")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Remote network").fill("192.0.2.0/99")
    page.keyboard.press("Enter")
    expect(page.locator(".card [role=status]")).to_contain_text("a network such as 192.0.2.0/24")


def test_a_flow_s_page_says_why_and_follows_a_pin_live(page: Page, place: Site) -> None:
    ready(page, place)
    page.get_by_role("link", name=f"{PATHS[0].remote}:").first.click()
    expect(page.locator("h1")).to_contain_text(PATHS[0].remote)
    told = ask(place, "GET", "/v1/flows/4711").json()["why"]
    expect(page.locator(".why")).to_have_text(told["sentence"])
    expect(page.locator(".switches li")).to_have_count(len(told["switches"]))
    expect(page.locator(".chart canvas")).to_have_count(3)
    pin(page, "vegas")
    page.get_by_role("button", name="Unpin").click()
    expect(page.get_by_role("button", name="Unpin")).to_be_disabled()
    assert ask(place, "GET", "/v1/flows/4711").json()["pinned"] is False


def test_the_arm_is_a_band_behind_the_throughput(page: Page, place: Site) -> None:
    ask(place, "PUT", "/v1/flows/4715/pin", {"arm": "htcp"})
    ready(page, place, "#/flows/4715")
    colour = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--arm-htcp').trim()")
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    for at in range(2):
        canvas = page.locator(".chart canvas").nth(at)
        page.wait_for_function(PAINTED, arg=[canvas.element_handle(), wanted])
    ask(place, "DELETE", "/v1/flows/4715/pin")


def test_events_show_as_they_happen(page: Page, place: Site) -> None:
    ready(page, place)
    ask(place, "PUT", "/v1/flows/4712/pin", {"arm": "westwood"})
    expect(page.locator(".feed")).to_contain_text("to westwood: an operator pinned the flow.")
    ask(place, "DELETE", "/v1/flows/4712/pin")
    ask(place, "PUT", "/v1/mode", {"mode": "off"})
    expect(page.locator("#mode")).to_have_text("off")
    ask(place, "PUT", "/v1/mode", {"mode": "active"})
    expect(page.locator("#mode")).to_have_text("active")


def test_settings_are_changed_by_keyboard_alone(page: Page, place: Site) -> None:
    ready(page, place, "#/settings")
    page.get_by_label("advise").press("Space")
    page.locator("form", has_text="Mode").get_by_role("button").press("Enter")
    expect(page.locator("#notice")).to_have_text("The mode is advise.")
    assert ask(place, "GET", "/v1/mode").json()["mode"] == "advise"
    add_to_pool(page, "htcp", lambda: ask(place, "GET", "/v1/pool").json()["arms"])
    number = page.get_by_label("Arms that team selection picks")
    assert int(number.input_value()) <= int(number.get_attribute("max") or 0) == 4, "6 are set"
    choose_k(page, 2, lambda: ask(place, "GET", "/v1/k").json()["k"])
    ask(place, "PUT", "/v1/mode", {"mode": "active"})


def test_a_change_is_told_once_the_page_shows_it(page: Page, place: Site) -> None:
    """A slow answer about the new settings must not leave the old limits beside the notice."""
    page.add_init_script(SLOW_ARMS)
    ready(page, place, "#/settings")
    before = ask(place, "GET", "/v1/pool").json()["arms"]
    page.locator("#pool input:checked").first.press("Space")
    page.locator("#pool").get_by_role("button").press("Enter")
    expect(page.locator("#notice")).to_contain_text("The pool is")
    number = page.get_by_label("Arms that team selection picks")
    assert number.get_attribute("max") == str(len(before) - 1)
    ask(place, "PUT", "/v1/pool", {"arms": before})


def test_the_gain_is_shown_with_its_interval(page: Page, place: Site) -> None:
    """The experiment has 8 % more goodput and a lower RTT, and about as many retransmits."""
    ready(page, place, "#/gain")
    effects = page.locator(".effects li")
    expect(effects).to_have_count(5)
    told = ask(place, "GET", "/v1/report").json()["overall"]["goodput"]
    expect(effects.first).to_contain_text(f"+{told['value'] * 100:.1f} % (+{told['lower'] * 100:.1f} to")
    expect(effects.nth(1).locator(".tag")).to_have_text("better")
    expect(effects.nth(3)).to_contain_text("Reward")
    expect(effects.nth(4).locator(".tag")).to_have_text("no clear change")
    expect(page.locator("tbody").first.locator("tr")).to_have_count(12)
    page.get_by_label("Decisions of").select_option("all of the log")
    expect(effects).to_have_count(5)


def test_the_gain_of_flows_is_shown_by_their_size(page: Page, place: Site) -> None:
    """The site's log has no outcomes, so those are made here."""
    better = {"value": 0.123, "lower": 0.05, "upper": 0.2, "treated": 30, "control": 10}
    told = ask(place, "GET", "/v1/report").json() | {"flow_reward": {"all": better, "< 30 KB": None}}
    page.route("**/v1/report*", lambda route: route.fulfill(json=told))
    ready(page, place, "#/gain")
    rows = page.locator("section, table", has_text="By the size of a flow").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("+12.3 % (+5.0 to +20.0)")
    expect(rows.nth(1)).to_contain_text("not known yet")


ROLLOUT = {
    "by": "uid 0", "began": 1.0, "ended": None, "units": "blocks", "baseline_arm": "cubic", "tolerance": 0.05,
    "share": 0.2, "stage": 2, "stages": [0.05, 0.2, 0.5, 1.0], "stage_s": 7200.0, "stage_min_s": 14400.0,
    "stage_max_s": 1209600.0, "rounds": 2, "round_s": 3000.0, "prefixes": 30, "estimate": 0.034,
    "lower": -0.15, "upper": 0.2, "must_exclude": -0.1, "detect_s": 36000.0,
}  # fmt: skip


def test_a_rollout_shows_its_stage_and_is_aborted(page: Page, place: Site) -> None:
    """The site's daemon runs an experiment of its own, so the answers are made here."""
    told = {"state": "running", "reason": "", "rollout": ROLLOUT}

    def answer(route: Route) -> None:
        if route.request.method == "DELETE":
            told.update(state="aborted", reason="it was aborted (uid 0)", rollout={**ROLLOUT, "ended": 2.0})
        route.fulfill(json=told)

    page.route("**/v1/rollout", answer)
    ready(page, place, "#/gain")
    card = page.locator("#rollout")
    expect(card.locator("[aria-current=step]")).to_have_text("20 %")
    expect(card.locator(".past")).to_have_text("5.0 %")
    expect(card).to_contain_text("+3.4 %, proven above −15.0 % and below +20.0 %")
    expect(card).to_contain_text("−10.0 % or worse is excluded. Time to prove a harm of 10 %: about 10 h")
    card.get_by_role("button", name="Abort the rollout").click()
    expect(page.locator("#notice")).to_have_text("The rollout is aborted: the mode is advise.")
    expect(card).to_contain_text("It was aborted (uid 0).")
    expect(card.get_by_role("button")).to_have_count(0)


def test_the_card_of_a_rollout_keeps_the_focus(page: Page, place: Site) -> None:
    """While its facts are drawn anew every five seconds, too."""
    shares = iter([0.05, 0.2, 0.5])
    page.route(
        "**/v1/rollout",
        lambda route: route.fulfill(
            json={"state": "running", "reason": "", "rollout": {**ROLLOUT, "estimate": next(shares, 0.5)}}
        ),
    )
    ready(page, place, "#/gain")
    card = page.locator("#rollout")
    button = card.get_by_role("button", name="Abort the rollout")
    button.focus()
    for estimate in ("+20.0 %", "+50.0 %"):
        expect(card).to_contain_text(f"traffic: {estimate}")
        expect(button).to_be_focused(timeout=1)


def test_without_a_rollout_there_is_no_card(page: Page, place: Site) -> None:
    ready(page, place, "#/gain")
    expect(page.locator(".effects li")).to_have_count(5)
    expect(page.locator("#rollout")).to_have_count(0)


def test_policies_are_shown_before_they_are_added_and_removed(page: Page, place: Site) -> None:
    ready(page, place, "#/settings")
    card = page.locator("#policies")
    preview = card.get_by_role("button", name="Preview")
    expect(preview).to_be_disabled()
    card.get_by_label("Destination prefix").fill("203.0.113.0/24")
    card.get_by_label("What to do").select_option("pool")
    card.get_by_label("Arm", exact=True).select_option(["bbr", "vegas"])
    card.get_by_label("Namespace").fill("web")
    preview.click()
    expect(card.locator(".diff li")).to_have_text("+ 203.0.113.0/24, namespace web: pool bbr vegas")
    assert ask(place, "GET", "/v1/policies").json()["policies"] == []
    card.get_by_role("button", name="Cancel").click()
    expect(card.locator(".diff")).to_have_count(0)
    card.get_by_label("Namespace").fill("")
    preview.click()
    expect(card.locator(".diff li")).to_have_text("+ 203.0.113.0/24: pool bbr vegas")
    card.get_by_role("button", name="Apply").click()
    expect(page.locator("#notice")).to_have_text("There is a policy for 203.0.113.0/24.")
    expect(card.locator(".policies li")).to_contain_text("203.0.113.0/24 pool bbr, vegas")
    (entry,) = ask(place, "GET", "/v1/policies").json()["policies"]
    assert (entry["prefix"], entry["pool"]) == ("203.0.113.0/24", ["bbr", "vegas"])
    card.get_by_label("Destination prefix").fill("203.0.113.0/99")
    preview.click()
    expect(page.locator("#notice.bad")).to_contain_text("a network such as")
    card.get_by_role("button", name="Remove the policy for 203.0.113.0/24").click()
    expect(card.locator(".diff li")).to_have_text("− 203.0.113.0/24: pool bbr vegas")
    assert len(ask(place, "GET", "/v1/policies").json()["policies"]) == 1
    card.get_by_role("button", name="Apply").click()
    expect(card.locator(".policies")).to_have_text("There are none.")
    assert ask(place, "GET", "/v1/policies").json()["policies"] == []


def test_a_pool_that_somebody_else_changed_meanwhile_is_not_overwritten(page: Page, place: Site) -> None:
    ready(page, place, "#/settings")
    page.get_by_label("westwood").check()
    ask(place, "PUT", "/v1/pool", {"arms": ["bbr", "vegas"]})
    page.locator("#pool").get_by_role("button").click()
    expect(page.locator("#notice.bad")).to_be_visible()
    assert ask(place, "GET", "/v1/pool").json()["arms"] == ["bbr", "vegas"]
    ask(place, "PUT", "/v1/pool", {"arms": ["bbr", "vegas", "ltp"]})


def test_a_one_time_address_opens_the_page_over_tcp(page: Page, place: Site) -> None:
    def address(scope: str) -> str:
        return str(ask(place, "POST", "/v1/sessions", {"scope": scope}).json()["url"])

    page.goto(f"http://127.0.0.1:{place.api.port}/")
    expect(page.locator("body")).to_contain_text("ltp-switcher dashboard")
    once = address("read")
    page.goto(once)
    assert page.url == f"http://127.0.0.1:{place.api.port}/"
    expect(page.locator("#live")).to_have_text("live")
    page.goto(once)
    expect(page.locator("body")).to_contain_text("the code was used")
    for scope, notice in (("read", "may only read"), ("write", "")):
        page.goto(address(scope))
        page.goto(f"http://127.0.0.1:{place.api.port}/#/settings")
        page.get_by_label("off", exact=False).first.check()
        page.locator("form", has_text="Mode").get_by_role("button").click()
        expect(page.locator("#notice.bad" if notice else "#notice:not(.bad)")).to_contain_text(notice)
        expect(page.locator("#notice")).to_be_visible()
    assert ask(place, "GET", "/v1/mode").json()["mode"] == "off"
    ask(place, "PUT", "/v1/mode", {"mode": "active"})


def test_text_from_the_kernel_is_no_markup(page: Page, place: Site) -> None:
    ready(page, place, "#/settings")
    expect(page.get_by_text(NO_ARM)).to_be_visible()
    assert page.locator("main b:not(.range b)").count() == 0


def test_a_time_at_the_end_of_the_axis_is_not_cut(page: Page, place: Site) -> None:
    """A time stands with its middle at its moment, which may be the newest one."""
    page.add_init_script(NOTE_TIMES)
    ready(page, place)
    chart = page.locator(".chart").first
    expect(chart.locator(".u-over")).to_be_visible()
    page.wait_for_function("Object.keys(times).length")
    widest = max(page.evaluate("Object.values(times)"))
    assert chart.evaluate(ROOM) >= widest / 2


@pytest.mark.parametrize("at", PAGES)
def test_a_phone_shows_all_of_it_without_scrolling_sideways(browser: Browser, place: Site, at: str) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True)
    page = ready(context.new_page(), place, at)
    page.wait_for_timeout(1500)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for box in page.locator("a, button, input[type=checkbox], select").all():
        place_of = box.bounding_box()
        assert place_of is None or place_of["x"] + place_of["width"] <= PHONE["width"]
    context.close()


@pytest.mark.parametrize("at", PAGES)
def test_everything_that_can_be_reached_has_a_name(page: Page, place: Site, at: str) -> None:
    ready(page, place, at)
    page.wait_for_timeout(1500)
    assert page.evaluate(NAMELESS) == []
    assert page.locator("h1").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_marks_stand_out_in_light_and_dark(browser: Browser, place: Site, scheme: str) -> None:
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = ready(context.new_page(), place)

    def token(name: str) -> str:
        value: str = page.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"
        )
        return value

    assert (luminance(token("page")) > 0.5) == (scheme == "light")
    for behind in ("card", "page", "tint"):
        for text in ("ink", "soft", "accent"):
            assert contrast(token(text), token(behind)) >= 4.5, (text, behind)
    for text in ("good", "warn", "bad"):
        assert contrast(token(text), token("card")) >= 4.5, text
    for arm, paint in {**palette.ARMS, "other": palette.OTHER}.items():
        shade = getattr(paint, scheme)
        assert token(f"arm-{arm}") == shade
        assert contrast(shade, token("card")) >= 3.0, arm
    assert contrast(token("accent-ink"), token("accent")) >= 4.5
    context.close()


def look_anew(page: Page) -> None:
    """Let the page, whose clock stands, get new figures: they take the longest to become old.

    A look begins only after the one before it was answered: the clock goes on until both answers are there.
    """
    answered: set[str] = set()
    page.on("response", lambda response: answered.add(urlsplit(response.url).path))
    for _ in range(150):
        page.clock.run_for(100)
        page.wait_for_timeout(100)
        if answered >= {"/v1/status", "/v1/flows"}:
            page.wait_for_timeout(500)
            return
    pytest.fail(f"In 15 s the page asked for {sorted(answered)} alone.")


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("daemon gone", "Cannot reach the daemon at"), ("daemon hangs", "The daemon does not answer."),
        ("API hangs", "The API does not answer."), ("API killed", "The API does not answer."),
    ],
)  # fmt: skip
def test_old_figures_are_marked_within_three_seconds(
    context: BrowserContext, place: Site, tmp_path: Path, way: str, says: str
) -> None:
    """The page's own clock is moved by hand: at 2.9 s the mark is there, however slow this machine is."""
    with contextlib.ExitStack() as world:
        if way == "API killed":
            folder = world.enter_context(tempfile.TemporaryDirectory(prefix="ltp"))
            place = world.enter_context(site(Path(folder)))
        page = context.new_page()
        page.clock.install()
        ready(page, place)
        expect(page.locator("tbody tr").first).to_be_visible()
        expect(page.locator("#stale")).to_be_hidden()
        with contextlib.ExitStack() as opened:
            page.clock.pause_at(page.evaluate("Date.now() + 1"))
            look_anew(page)
            gone(way, place, opened)
            page.clock.run_for(2900)
            assert page.locator("#live").inner_text() == "no answer"
            assert page.locator("body.stale #stale").is_visible()
            expect(page.locator("#stale")).to_contain_text("The figures are from ")
            page.clock.resume()
            expect(page.locator("#stale")).to_contain_text(says)
        if way != "API killed":
            expect(page.locator("#live")).to_have_text("live")
            expect(page.locator("#stale")).to_be_hidden()


def test_a_request_that_is_never_answered_does_not_end_the_looking(
    context: BrowserContext, place: Site
) -> None:
    page = context.new_page()
    unanswered: list[Route] = []

    def answer(route: Route) -> None:
        if unanswered:
            route.continue_()
        else:
            unanswered.append(route)

    page.route("**/v1/status", answer)
    page.goto(place.url)
    expect(page.locator("#live")).to_have_text("no answer")
    expect(page.locator("#live")).to_have_text("live")
    assert unanswered


def test_a_page_that_was_opened_without_a_daemon_fills_once_there_is_one(
    context: BrowserContext, place: Site
) -> None:
    for at, shows in (
        ("#/", "tbody tr"),
        ("#/flows/4711", ".facts dd"),
        ("#/settings", "form"),
        ("#/gain", ".effects"),
        ("#/fleet", "pre"),
    ):
        page = context.new_page()
        with contextlib.ExitStack() as opened:
            gone("daemon gone", place, opened)
            page.goto(place.url + at)
            expect(page.locator("#stale")).to_contain_text("There are no figures yet.")
        expect(page.locator(shows).first).to_be_visible()
        expect(page.locator("#live")).to_have_text("live")
        page.close()


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("#/flows/%", "ends with its cookie"), ("#/flows/0", "ends with its cookie"),
        ("#/flows/%3Cb%3E", "ends with its cookie"), ("#/nowhere", "no page of this name"),
        ("#/__proto__", "no page of this name"), ("#/flows/99", "No flow has this cookie now"),
    ],
)  # fmt: skip
def test_an_address_that_leads_nowhere_says_so(page: Page, place: Site, at: str, says: str) -> None:
    ready(page, place, at)
    expect(page.locator("main")).to_contain_text(says)
    expect(page.locator("main button, main .chart:visible")).to_have_count(0) if at != "#/flows/99" else None
    page.get_by_role("link", name="← All flows").click()
    expect(page.locator("tbody tr").first).to_be_visible()


def test_values_are_read_by_pointer_and_by_keys(page: Page, place: Site) -> None:
    ready(page, place)
    chart = page.locator(".chart")
    expect(chart.locator("canvas")).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    expect(chart.locator(".tip")).to_contain_text(re.compile(r"\d\d:\d\d:\d\d.*Mbit/s.*All.*Mbit/s"))
    page.mouse.move(0, 0)
    expect(chart.locator(".tip")).to_be_hidden()
    page.goto(f"{place.url}#/flows/{CELLULAR}")
    expect(page.locator(".chart canvas")).to_have_count(3)
    page.locator(".chart").nth(1).focus()
    page.keyboard.press("ArrowLeft")
    # One cursor for all quantities of the flow.
    for at, unit in enumerate(("bit/s", "ms", "%")):
        expect(page.locator(".chart").nth(at).locator(".tip")).to_contain_text(unit)


def test_a_new_page_begins_with_the_latest_events(context: BrowserContext, place: Site) -> None:
    for mode in ("off", "active"):
        ask(place, "PUT", "/v1/mode", {"mode": mode})
    for _ in range(2):
        page = ready(context.new_page(), place)
        expect(page.locator(".feed")).to_contain_text("Mode is active now, was off.")
        expect(page.locator(".feed")).to_contain_text("Mode is off now, was active.")


CROWD = tuple(PathOf(f"198.51.100.{i}", 30.0 + i, 10.0 + 2 * i) for i in range(1, 41))


@pytest.fixture(scope="module")
def crowd() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="ltp") as folder, site(Path(folder), paths=CROWD) as served:
        yield served


def test_all_flows_are_sorted_not_those_of_the_page(page: Page, crowd: Site) -> None:
    ready(page, crowd)
    rows, pager = page.locator("tbody tr"), page.locator(".pager")
    expect(rows).to_have_count(25)
    expect(rows.first).to_contain_text(CROWD[-1].remote)
    expect(pager).to_contain_text("1 to 25 of 40")
    lowest = page.get_by_role("columnheader", name="Lowest")
    # The flow with the highest RTT has the most goodput, too, and the lowest RTT is on the other page.
    for path, sort in ((CROWD[-1], "descending"), (CROWD[0], "ascending")):
        lowest.get_by_role("button").click()
        expect(lowest).to_have_attribute("aria-sort", sort)
        expect(rows.first).to_contain_text(f"{path.remote}:")
    pager.get_by_role("button", name="Next").click()
    expect(rows).to_have_count(15)
    expect(rows.last).to_contain_text(CROWD[-1].remote)
    expect(pager).to_contain_text("26 to 40 of 40")
    expect(pager.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_label("Remote network").fill("198.51.100.1/32")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(pager).to_be_hidden()


def test_the_median_rtt_is_that_of_all_flows(page: Page, crowd: Site) -> None:
    """Half of the 40 RTTs are below 51 ms; of the 25 with the most goodput, most are above."""
    ready(page, crowd)
    shown = page.locator(".tile", has_text="Median RTT").locator("dd")
    expect(shown).to_contain_text("of all flows")
    value, unit = shown.inner_text().split()[:2]
    assert unit == "ms"
    least = sorted(path.rtt_ms for path in CROWD)
    assert least[len(least) // 2 - 1] <= float(value) < least[-25 + 25 // 2]


def test_a_phone_shows_each_address_on_one_line(browser: Browser, place: Site) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = ready(context.new_page(), place)
    addresses = page.locator("tbody .address")
    expect(addresses.first).to_be_visible()
    line = page.evaluate("1.6 * parseFloat(getComputedStyle(document.body).fontSize)")
    for box in [address.bounding_box() for address in addresses.all()]:
        assert box is not None
        assert box["height"] < line
    for box in [row.bounding_box() for row in page.locator("tbody tr").all()]:
        assert box is not None
        assert box["height"] < 5 * line
    # The longest address of all breaks between its groups alone.
    long = "[2001:0db8:85a3:08d3:1319:8a2e:0370:7348]:40718"
    lines = page.evaluate(
        """async (text) => {
            const { address } = await import("/dashboard/dom.js");
            const place = document.querySelector("tbody td a");
            place.replaceChildren(address(text));
            place.style.fontSize = "24px";
            const range = document.createRange(), found = [];
            for (const node of place.firstChild.childNodes) {
                if (!node.textContent) continue;
                range.selectNodeContents(node);
                found.push([node.textContent, range.getClientRects().length]);
            }
            return found;
        }""",
        long,
    )
    assert "".join(text for text, _ in lines) == long
    assert [rects for _, rects in lines] == [1] * len(lines)
    context.close()


def test_files_are_asked_for_once_and_no_other_file_is_given(place: Site) -> None:
    with place.api.client() as client:
        first = client.get("/dashboard/app.js")
        again = client.get("/dashboard/app.js", headers={"if-none-match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
        for path in ("../app.py", "..%2fapp.py", "vendor", "", "nothing.js", "vendor/uPlot.esm.js.license"):
            assert client.get(f"/dashboard/{path}").status_code == 404, path
        assert client.head("/").status_code == 200
