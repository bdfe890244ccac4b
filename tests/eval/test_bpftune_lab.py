# SPDX-License-Identifier: Apache-2.0
"""Debian's bpftune in the guest chooses the congestion control of real flows, and its runs repeat."""

from __future__ import annotations

import csv
import io
import re

import pytest

from ltp_switcher.eval.lab.run import RESULTS, boot_scenario
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LOG = "/run/lab/bpftune.log"
# Flows one after the other. bpftune chooses at the start from the fourth to an address on.
UNKNOWN, FLOWS, EVERY_S = 3, 8, 1.5
SHORT = tuple(Flow("bpftune", n * EVERY_S, n * EVERY_S + 1.2) for n in range(FLOWS))


def arms_by_flow(table: bytes) -> list[list[str]]:
    """The protocols that each flow's socket had, from bin to bin."""
    seen: list[list[str]] = [[] for _ in range(FLOWS)]
    for row in csv.DictReader(io.StringIO(table.decode())):
        if row["arm"]:
            seen[int(row["flow"])].append(row["arm"])
    return seen


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_it_chooses_at_the_start_and_takes_bbr_on_losses(kernel: str) -> None:
    """Four protocols earn the same on this link, so the choice is random: not the default for all flows."""
    scenario = Scenario("tuned", FLOWS * EVERY_S, Link(rtt_ms=20.0, rate_mbps=12.0, buffer_bdp=1.0), SHORT)
    files = (LOG, f"{RESULTS}.csv", f"{RESULTS}.json")
    first, second = (
        boot_scenario(scenario, seed=1, kernel=kernel, daemon=None, collect=files) for _ in range(2)
    )
    assert first.files == second.files
    assert first.virtual_s == second.virtual_s

    log = first.files[LOG].decode()
    # The others would set buffers too. Debian's build looks for tuners twice in the same folder.
    assert set(re.findall(r"initialized tuner (\w+)", log)) == {"tcp_conn"}
    counts = re.findall(r"Summary: tcp_conn_tuner: +(cubic|bbr|htcp|dctcp) +(\d+)\n", log)[:4]
    assert sum(int(count) for _, count in counts) >= FLOWS - UNKNOWN

    seen = arms_by_flow(first.files[f"{RESULTS}.csv"])
    assert all(arms for arms in seen)
    # Nobody negotiates ECN here, and then the kernel runs DCTCP as Reno.
    assert {arm for arms in seen for arm in arms} <= {"cubic", "bbr", "htcp", "dctcp-reno"}
    assert len({arms[0] for arms in seen[UNKNOWN:]}) > 1
    # Losses at the end of slow start: BBR for the rest.
    assert all(arms[-1] == "bbr" for arms in seen if "bbr" in arms)
    assert any(arms[-1] == "bbr" != arms[0] for arms in seen)
