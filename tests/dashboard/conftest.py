# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, and a daemon with its API, for the tests of the dashboard."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from support.browser import Site, chromium, site

PATIENCE_MS = 15_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def place() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="ltp") as folder, site(Path(folder)) as served:
        yield served


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context()
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page in which every error of script, style or policy fails the test."""
    made = context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    yield made
    allowed = re.compile("Failed to load resource: the server responded with a status of (4|503)")
    assert [fault for fault in faults if not allowed.match(fault)] == []
