# SPDX-License-Identifier: Apache-2.0
"""Acts of a person on the dashboard, by mouse or by keyboard, and the page's answers."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

_PIXELS = "canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data"
# A canvas that shows something.
DRAWN = f"(canvas) => canvas.width > 0 && {_PIXELS}.some(Boolean)"


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
    expect(page.locator("#notice")).to_have_text(f"k is {wanted}.")
    assert k() == wanted
