# SPDX-License-Identifier: Apache-2.0
"""The log of outcomes, and its summary."""

from __future__ import annotations

import ipaddress
import json
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE
from ltp_switcher.daemon.gain import outcomes as log
from ltp_switcher.daemon.gain.log import LogWriter

HOME = 4026531840


def outcome(cookie: int, address: str = "192.0.2.9", **fields: int) -> np.ndarray:
    """One outcome of 1 MB in 2 s at an RTT of 50 ms, shape (1,)."""
    made = np.zeros(1, OUTCOME_DTYPE)
    parsed = ipaddress.ip_address(address)
    made["family"] = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    made["daddr"][0, : len(parsed.packed)] = list(parsed.packed)
    usual = {"acked_bytes": 1_000_000, "busy_us": 2_000_000, "rtt_us_sum": 500_000, "rtt_samples": 10}
    for name, value in {**usual, "delivered": 700, "cookie": cookie, "arm": 1, **fields}.items():
        made[name] = value
    return made


def test_rows_have_the_time_of_telling_and_no_number_for_the_own_namespace() -> None:
    told = np.concatenate(
        [outcome(1, netns=HOME, time_ns=7_000_000_000), outcome(2, netns=5, time_ns=10**10)]
    )
    rows = log.rows_of(told, 1_000_000.0, 10_000_000_000, HOME)
    assert rows["time_s"].tolist() == [999_997.0, 1_000_000.0]
    assert rows["outcome"]["netns"].tolist() == [0, 5]
    assert rows["outcome"]["cookie"].tolist() == [1, 2]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=30))
def test_the_last_outcome_of_a_flow_counts(told: list[tuple[int, int]]) -> None:
    outcomes = np.concatenate(
        [np.zeros(0, OUTCOME_DTYPE), *(outcome(cookie, sport=port) for cookie, port in told)]
    )
    expected = [who not in told[place + 1 :] for place, who in enumerate(told)]
    assert log.latest(outcomes).tolist() == expected


@given(st.lists(st.ip_addresses(), min_size=1, max_size=20), st.integers(0, 1))
def test_prefixes_are_those_of_the_daemon(addresses: list[ipaddress.IPv4Address], netns: int) -> None:
    outcomes = np.concatenate([outcome(1, str(address), netns=netns) for address in addresses])
    prefixes, numbers = log.numbered_prefixes(outcomes)
    for address, number in zip(addresses, numbers.tolist(), strict=True):
        network = ipaddress.ip_network((address, 24 if address.version == 4 else 48), strict=False)
        assert prefixes[number] == (f"{network}@{netns}" if netns else str(network))
    assert len(set(prefixes)) == len(prefixes)


def test_a_summary_compares_the_arms_of_a_prefix_and_size() -> None:
    outcomes = np.concatenate(
        [
            # Told of twice: it counts once, as it was at the end.
            outcome(1, arm=2, acked_bytes=900_000),
            outcome(1, arm=2, acked_bytes=2_000_000),
            outcome(2, arm=1),
            outcome(3, arm=1),
            outcome(4, "2001:db8::1", arm=1),
            outcome(5, arm=1, acked_bytes=1000),
            outcome(6, arm=1, acked_bytes=0),
        ]
    )
    found = log.summarised(outcomes, {1: "cubic", 2: "bbr"})
    shown = {(one.prefix, one.size, one.arm): one for one in found}
    assert {key: one.flows for key, one in shown.items()} == {
        ("192.0.2.0/24", "< 30 KB", "cubic"): 1,
        ("192.0.2.0/24", "< 3 MB", "cubic"): 2,
        ("192.0.2.0/24", "< 3 MB", "bbr"): 1,
        ("2001:db8::/48", "< 3 MB", "cubic"): 1,
    }
    better, worse = (shown["192.0.2.0/24", "< 3 MB", arm] for arm in ("bbr", "cubic"))
    # Twice the throughput is four times the reward; the mean is over three flows.
    assert better.value - worse.value == pytest.approx(np.log(4))
    assert better.value + 2 * worse.value == pytest.approx(0)
    assert (better.goodput_mbps, better.rtt_ms, better.loss) == (8.0, 50.0, 0.0)
    assert worse.acked_bytes == 2_000_000


def test_no_outcomes_are_no_summary() -> None:
    assert log.summarised(np.zeros(0, OUTCOME_DTYPE), {}) == []


def test_the_command_shows_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter(log.OUTCOMES, tmp_path, 10**6, {1: "cubic", 2: "bbr"})
    writer.append(log.rows_of(np.concatenate([outcome(1), outcome(2, arm=2)]), 5.0, 0, HOME))
    writer.close()
    assert main(["outcomes", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["arm"], one["flows"], one["value"], one["error"]) for one in found] == [
        ("cubic", 1, 0.0, None),
        ("bbr", 1, 0.0, None),
    ]
    assert main(["outcomes", str(tmp_path), "--terse"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("\t")[:4] == ["192.0.2.0/24", "< 3 MB", "cubic", "1"]
    assert main(["outcomes", str(tmp_path), "--since", "1d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_what_is_no_log_is_the_command_lines_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["outcomes", str(tmp_path / "nowhere")]) == 2
    assert "outcomes" in capsys.readouterr().err
