# SPDX-License-Identifier: Apache-2.0
"""Acts of a person on the dashboard, by mouse or by keyboard, and the page's answers."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from support.browser import Site

_PIXELS = "canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data"
# A canvas that shows something.
DRAWN = f"(canvas) => canvas.width > 0 && {_PIXELS}.some(Boolean)"
NO_TEAM = (
    "no flow's arms change yet: no team selection starts by itself, because the policy rule does not learn; "
    "`ltp-switcher mpts start`, or POST /v1/mpts, picks teams of this size"
)
# Gives all that can be reached and has no name.
NAMELESS = """() => {
    const reached = document.querySelectorAll('a, button, input, select, [role=img], [tabindex="0"]');
    const text = (e) => (['A', 'BUTTON'].includes(e.tagName) ? e.textContent : '');
    const labels = (e) => [...(e.labels ?? [])].map((label) => label.textContent).join('');
    const nameless = (e) => !(e.getAttribute('aria-label') || labels(e) || text(e)).trim();
    return [...reached].filter(nameless).map((e) => e.outerHTML);
}"""


def ready(page: Page, address: str) -> Page:
    """Open the dashboard, and wait until events come."""
    page.goto(address)
    expect(page.locator("#live")).to_have_text("live")
    return page


def pin(page: Page, arm: str) -> None:
    """Pin the flow of this page; the reason becomes another."""
    page.get_by_label("Arm to pin the flow to").select_option(arm)
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator(".why")).to_have_text(
        f"Somebody pinned the flow to {arm}; it stays there until it is unpinned."
    )
    expect(page.locator(".switches li").first).to_contain_text("an operator pinned the flow")


def add_to_pool(page: Page, arm: str, pool: Callable[[], object]) -> None:
    """Tick an arm by keyboard on the page of the settings. `pool` asks the API."""
    page.get_by_label(arm).press("Space")
    page.locator("#pool").get_by_role("button").press("Enter")
    expect(page.locator("#notice")).to_contain_text("The pool is")
    now = pool()
    assert isinstance(now, list)
    assert arm in now


def choose_k(page: Page, wanted: int, k: Callable[[], object]) -> None:
    """Type k on the page of the settings; one that is too large cannot be saved. `k` asks the API."""
    number = page.get_by_label("Arms that team selection picks")
    button = page.locator("form", has_text="Team size").get_by_role("button")
    number.fill("99")
    expect(button).to_be_disabled()
    number.fill(str(wanted))
    number.press("Enter")
    expect(page.locator("#notice")).to_have_text(f"k is {wanted}; {NO_TEAM}.")
    assert k() == wanted


def gone(way: str, place: Site, opened: contextlib.ExitStack) -> None:
    """Let the daemon or the API go, or fall silent; what can come back does so with `opened`."""
    control = Path(place.daemon.config.daemon.control_socket)
    if way == "API killed":
        place.api.process.kill()
        place.api.process.wait()
    elif way == "API hangs":
        place.api.process.send_signal(signal.SIGSTOP)
        opened.callback(place.api.process.send_signal, signal.SIGCONT)
    else:
        away = control.with_suffix(".away")
        control.rename(away)
        opened.callback(away.rename, control)
    if way == "daemon hangs":
        # It takes connections, as systemd's socket does while the daemon is down, and answers none.
        silent = opened.enter_context(socket.socket(socket.AF_UNIX))
        silent.bind(str(control))
        silent.listen(64)
