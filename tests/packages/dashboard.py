# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a machine in Chromium here: the real service on the machine's own kernel."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import Error, Page, expect
from support.browser import chromium
from support.dashboard_use import DRAWN, add_to_pool, choose_k, pin, ready

from packages.build import FailedError
from packages.machine import Ports
from packages.matrix import Check

# The far end of the flows in guest/run.sh, and their number.
REMOTE: Final = "10.9.0.2:7000"
FLOWS: Final = 6
# Neither is chosen by itself: the pool has not got them.
PINNED: Final = "westwood"
ADDED: Final = "htcp"
PATIENCE_MS: Final = 120_000
FETCH: Final = "(path) => fetch(path).then((answer) => answer.json())"
SAME: Final = "(path) => fetch(path).then((a) => a.json()).then(({why}) => why.sentence === %s)"
# The first points come later than the row.
FIRST_DRAWN: Final = f"(selector) => ({DRAWN})(document.querySelector(selector))"
SHOWN: Final = "document.querySelector('.why').textContent"


class Visit:
    """The page of a browser, with all that it asked for and all errors that it told."""

    def __init__(self, page: Page, port: int, logs: Path) -> None:
        self.page, self.logs = page, logs
        self.url = f"http://127.0.0.1:{port}/"
        self.asked: list[str] = []
        self.faults: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)

    def get(self, path: str) -> dict[str, object]:
        """What the API answers to the page."""
        found = self.page.evaluate(FETCH, path)
        assert isinstance(found, dict)
        return found

    def opens(self, once: str) -> None:
        """Open the address that `ltp-switcher dashboard` printed; its port is forwarded from another here."""
        self.page.goto(self.url + urlsplit(once).path.lstrip("/") + "?" + urlsplit(once).query)
        assert self.page.url == self.url
        expect(self.page.locator("#live")).to_have_text("live")

    def shows_flows(self) -> None:
        """Each flow has a row with its arm, and the figures move."""
        rows = self.page.locator("tbody tr").filter(has_text=REMOTE)
        expect(rows).to_have_count(FLOWS)
        pool = self.get("v1/pool")["arms"]
        assert isinstance(pool, list)
        for row in rows.all():
            expect(row.locator("td").nth(1)).to_have_text(re.compile("|".join(pool)))
        age = rows.first.locator("td").last
        expect(age).not_to_have_text(age.inner_text())
        for canvas in ("canvas.spark", ".chart canvas"):
            self.page.wait_for_function(FIRST_DRAWN, arg=canvas, polling=1000)
        self.page.screenshot(path=self.logs / "dashboard.png")

    def says_why(self) -> None:
        """A flow's page has the daemon's own reason, its switches and its charts."""
        self.page.get_by_role("link", name=REMOTE).first.click()
        expect(self.page.locator("h1")).to_contain_text(REMOTE)
        path = f"v1/flows/{self.page.url.rpartition('/')[2]}"
        expect(self.page.locator(".why")).to_have_text(re.compile(r"^[A-Z].*\.$"))
        self.page.wait_for_function(SAME % SHOWN, arg=path, polling=1000)
        expect(self.page.locator(".switches time").first).to_be_visible()
        expect(self.page.locator(".chart canvas")).to_have_count(3)
        self.page.screenshot(path=self.logs / "flow.png")

    def pins(self) -> None:
        """Pin the flow, which stays pinned for the checks of the machine."""
        pin(self.page, PINNED)

    def edits_pool(self) -> None:
        """Add an arm to the pool."""
        ready(self.page, self.url + "#/settings")
        add_to_pool(self.page, ADDED, lambda: self.get("v1/pool")["arms"])

    def edits_k(self) -> None:
        """Choose k."""
        choose_k(self.page, 2, lambda: self.get("v1/k")["k"])

    def stays_at_home(self) -> None:
        """Nothing was asked for elsewhere, and no script, style or policy failed."""
        assert {urlsplit(url).netloc for url in self.asked} == {urlsplit(self.url).netloc}
        assert self.faults == []


def visit(ports: Ports, logs: Path) -> None:
    """Send the results of all checks to the machine, which waits for them in guest/browser.py.

    Raises `FailedError` if the machine gives no address.
    """
    expect.set_options(timeout=PATIENCE_MS)
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        it = Visit(page, ports.dashboard, logs)
        machine, once = address(ports.results)
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("a one-time address opens it", lambda: it.opens(once)),
            (f"shows {FLOWS} flows with their arms", it.shows_flows),
            ("a flow's page says why", it.says_why),
            ("a pin changes the reason", it.pins),
            ("the pool is edited", it.edits_pool),
            ("k is edited", it.edits_k),
            ("nothing comes from elsewhere, and nothing fails", it.stays_at_home),
        )
        with machine:
            for check in run(steps):
                machine.sendall(json.dumps(check).encode() + b"\n")
            machine.sendall(b"end\n")


def run(steps: tuple[tuple[str, Callable[[], None]], ...]) -> Iterator[Check]:
    """A check for each step, in order."""
    for name, act in steps:
        began_s = time.monotonic()
        said = ""
        try:
            act()
        except (AssertionError, Error) as error:
            said = str(error)[-2000:] or repr(error)
        yield {
            "step": "dashboard",
            "check": name,
            "ok": not said,
            "s": round(time.monotonic() - began_s, 1),
            "said": said,
        }


def address(port: int) -> tuple[socket.socket, str]:
    """A connection to guest/browser.py, and the address that it gave. Raises `FailedError`."""
    give_up_s = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < give_up_s:
        # QEMU takes the connection before the machine listens, and ends it then.
        machine = socket.create_connection(("127.0.0.1", port))
        try:
            if once := machine.makefile("r").readline():
                return machine, once.strip()
        except OSError:
            pass
        machine.close()
        time.sleep(1)
    raise FailedError("the machine gave no address of its dashboard")
