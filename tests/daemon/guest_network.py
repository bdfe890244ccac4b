# SPDX-License-Identifier: Apache-2.0
"""Runs inside the guest: the real daemon with an arm that notes the reports of the network, and checks.

`daemon ARGUMENTS` is the daemon's command line; the other words are checks.
"""

import json
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from ltp_switcher.daemon.steer import arms
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge

HEARD = Path("/run/heard.json")
WINDOW_PKTS = 200.0
"""More than the link and its queue hold, 100 packets: the bottleneck drops what is above."""


class Listening:
    """An arm of a constant window, too large for the path."""

    law = Law.WINDOW
    interval_s = 0.030
    network_knowledge: NetworkKnowledge | None = None

    def begin(self, slots: np.ndarray, window_pkts: np.ndarray) -> None:
        pass

    def decide(self, slots: np.ndarray, interval: Interval) -> np.ndarray:
        known = self.network_knowledge
        # A reader finds the old text or the new one, and never half of it.
        written = HEARD.with_suffix(".new")
        written.write_text(json.dumps(None if known is None else [known.pnc_pkts, known.pna, known.known]))
        written.replace(HEARD)
        return np.full((slots.size, 1), WINDOW_PKTS)


def daemon() -> None:
    arms.missing_weights = lambda name, _: None
    arms.import_module = lambda _: SimpleNamespace(make_arm=lambda *_, **__: Listening())
    from ltp_switcher.daemon.cli.main import main

    sys.exit(main(sys.argv[2:]))


def heard() -> None:
    """The arm hears what the agent serves: a full link that drops, one of two nodes of five."""
    connection = HTTPConnection("127.0.0.1", 9481)
    connection.request("GET", "/v1/network")
    told = json.loads(connection.getresponse().read())
    print(told)
    pnc_pkts, pna, known = json.loads(HEARD.read_text())
    for pnc, spare in ((pnc_pkts, pna), (told["pnc_pkts"], told["pna"])):
        assert pnc > 10, pnc
        assert spare < 0.1, spare
    assert known == told["known"] == 0.4
    link, loopback = told["nodes"]
    assert link["difference_pkts"] == told["pnc_pkts"]
    assert loopback["name"] == "lo"
    assert loopback["difference_pkts"] == 0
    assert loopback["spare"] > 0.99


def masked() -> None:
    """Three seconds after the agent's end nothing is known."""
    time.sleep(3.5)
    assert json.loads(HEARD.read_text()) is None


if __name__ == "__main__":
    {"daemon": daemon, "heard": heard, "masked": masked}[sys.argv[1]]()
    print(sys.argv[1], "ok")
