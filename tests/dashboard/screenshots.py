# SPDX-License-Identifier: Apache-2.0
"""Take the pictures of the dashboard for the documentation: `make screenshots`. It takes six minutes.

`support.live_kernel` makes the flows; daemon, API and browser are the real ones. The time of a step in them
is measured: on a busy machine run it with `chrt -r 1`, as root. The browser yields to the daemon then.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import Browser, Page
from support import live_kernel
from support.browser import chromium, site

NO_ARM: Final = "no such protocol in this kernel or its modules"
"""What the module says of an arm that is not there."""
Shot = tuple[str, str, int, int, Literal["light", "dark"]]
STALE: Final[Shot] = ("dashboard-stale", "#/", 390, 844, "dark")
SHOTS: Final[tuple[Shot, ...]] = (
    ("dashboard", "#/", 1280, 1000, "light"),
    ("dashboard-dark", "#/", 1280, 1000, "dark"),
    ("dashboard-phone", "#/", 390, 844, "light"),
    ("dashboard-gain", "#/gain", 1280, 1080, "light"),
    ("dashboard-settings", "#/settings", 1280, 1080, "light"),
    ("dashboard-flow", "#/flows/4716", 1280, 1080, "light"),
)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/img"))
    parser.add_argument("--wait", type=float, default=300.0, metavar="S", help="history to gather first")
    options = parser.parse_args()
    live_kernel.ARMS[:] = [replace(arm, reason=NO_ARM if arm.reason else "") for arm in live_kernel.ARMS]
    taken: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as place:
        mine = os.sched_getscheduler(0), os.sched_getparam(0)
        # The browser inherits this thread's scheduling.
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        with chromium() as browser:
            os.sched_setscheduler(0, *mine)
            time.sleep(options.wait)
            for shot in SHOTS:
                taken[shot[0]] = take(opened(browser, place.url, shot))
            page = opened(browser, place.url, STALE)
            place.api.process.kill()
            page.locator("#stale").wait_for()
            # So long ago that nobody takes it for a hiccup.
            page.wait_for_timeout(10_000)
            taken[STALE[0]] = take(page)
    for name, picture in taken.items():
        save(picture, options.out / f"{name}.png")


def opened(browser: Browser, url: str, shot: Shot) -> Page:
    """The page of a shot, some seconds old."""
    _, at, width, height, scheme = shot
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=1.5 if width > 400 else 2,
    )
    page = context.new_page()
    page.goto(url + at)
    page.wait_for_timeout(4000)
    return page


def take(page: Page) -> bytes:
    """A picture of the page, which is closed."""
    picture = page.screenshot()
    page.context.close()
    return picture


def save(picture: bytes, path: Path) -> None:
    """Save a picture. 256 colours are enough, and take a third of the space."""
    shot = Image.open(io.BytesIO(picture)).convert("RGB")
    # The most different colours, not the most frequent: an arm's may have few points.
    few = shot.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    print(path)


if __name__ == "__main__":
    main()
