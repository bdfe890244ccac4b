# SPDX-License-Identifier: Apache-2.0
"""Take the pictures of the dashboard for the documentation: `make screenshots`. It takes six minutes.

`support.live_kernel` makes the flows; daemon, API and browser are the real ones. Take them on a quiet
machine, for the time of a step in them is measured.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import Browser, Page
from support.browser import chromium, site

Shot = tuple[str, str, int, int, Literal["light", "dark"]]
STALE: Final[Shot] = ("dashboard-stale", "#/", 390, 844, "dark")
SHOTS: Final[tuple[Shot, ...]] = (
    ("dashboard", "#/", 1280, 1000, "light"),
    ("dashboard-dark", "#/", 1280, 1000, "dark"),
    ("dashboard-phone", "#/", 390, 844, "light"),
    ("dashboard-gain", "#/gain", 1280, 1080, "light"),
    ("dashboard-flow", "#/flows/4716", 1280, 1080, "light"),
)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/img"))
    parser.add_argument("--wait", type=float, default=300.0, metavar="S", help="history to gather first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as place, chromium() as browser:
        time.sleep(options.wait)
        for shot in SHOTS:
            save(opened(browser, place.url, shot), options.out / f"{shot[0]}.png")
        page = opened(browser, place.url, STALE)
        place.api.process.kill()
        page.locator("#stale").wait_for()
        # So long ago that nobody takes it for a hiccup.
        page.wait_for_timeout(10_000)
        save(page, options.out / f"{STALE[0]}.png")


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


def save(page: Page, path: Path) -> None:
    """Save a picture, and close the page. 256 colours are enough, and take a third of the space."""
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    # The most different colours, not the most frequent: an arm's may have few points.
    few = shot.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    print(path)
    page.context.close()


if __name__ == "__main__":
    main()
