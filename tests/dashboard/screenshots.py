# SPDX-License-Identifier: Apache-2.0
"""Take the pictures of the dashboard for the documentation: `make screenshots`. It takes five minutes.

`support.live_kernel` makes the flows; daemon, API and browser are the real ones.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from pathlib import Path

from PIL import Image
from support.browser import chromium, site

SHOTS = (
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
        for name, page_of, width, height, scheme in SHOTS:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                device_scale_factor=1.5 if width > 400 else 2,
            )
            page = context.new_page()
            page.goto(place.url + page_of)
            page.wait_for_timeout(4000)
            shot = page.screenshot()
            # 256 colours are enough, and take a third of the space.
            few = Image.open(io.BytesIO(shot)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
            few.save(options.out / f"{name}.png", optimize=True)
            print(options.out / f"{name}.png")
            context.close()


if __name__ == "__main__":
    main()
