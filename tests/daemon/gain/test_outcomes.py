# SPDX-License-Identifier: Apache-2.0
"""The log of outcomes, and its summary."""

from __future__ import annotations

import base64
import ipaddress
import json
import socket
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE
from ltp_switcher.daemon.gain import outcomes as log
from ltp_switcher.daemon.gain.log import LogWriter, Skipped
from ltp_switcher.daemon.gain.rows import Group

HOME = 4026531840
BEFORE_GROUPS = (
    "c-rgq2?<Cm%H{GryRpZCi2)8Gv;*#3Oxv{^$b8_p=9VKP19srx#1Ez$TI5i~_b@Tw1qut<!88{GY2W|@6DKksyEQ1T1-qYVN"
    "V%U0!~M*I#Qh44ygQHsnu|dA0|0})9`*"
)
"""A file of three outcomes, of the flows 1 to 3, as the last version without groups wrote it."""


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
    found = log.summarised(log.rows_of(outcomes, 5.0, 0, HOME), {1: "cubic", 2: "bbr"})
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
    assert log.summarised(np.zeros(0, log.ROW_DTYPE), {}) == []


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
    assert capsys.readouterr().out.splitlines()[0].split("\t")[:4] == ["192.0.2.0/24", "< 3 MB", "cubic", "-"]
    assert main(["outcomes", str(tmp_path), "--since", "1d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_the_command_tells_the_groups_of_an_experiment_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = log.rows_of(np.concatenate([outcome(n) for n in range(1, 6)]), 5.0, 0, HOME)
    rows["group"] = [Group.NONE, Group.TREATED, Group.TREATED, Group.CONTROL, Group.WASHOUT]
    writer = LogWriter(log.OUTCOMES, tmp_path, 10**6, {1: "cubic"})
    writer.append(rows)
    writer.close()
    assert main(["outcomes", str(tmp_path), "--json"]) == 0
    found = {one["group"]: one["flows"] for one in json.loads(capsys.readouterr().out)}
    assert found == {"none": 1, "treated": 2, "control": 1, "washout": 1}
    assert main(["outcomes", str(tmp_path), "--terse"]) == 0
    shown = [line.split("\t")[3] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["-", "treated", "control", "washout"]


def test_a_log_of_before_groups_is_read_beside_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "outcomes-000000000001.log").write_bytes(zlib.decompress(base64.b85decode(BEFORE_GROUPS)))
    writer = LogWriter(log.OUTCOMES, tmp_path, 10**6, {1: "cubic", 2: "bbr"})
    new = log.rows_of(outcome(4), 1_790_000_060.0, 0, HOME)
    new["group"], new["block"] = Group.CONTROL, 7
    writer.append(new)
    writer.close()
    skipped = Skipped()
    rows = np.concatenate([*log.read(tmp_path, skipped=skipped)])
    assert skipped == Skipped()
    assert rows["outcome"]["cookie"].tolist() == [1, 2, 3, 4]
    assert rows["outcome"]["arm"].tolist() == [1, 2, 1, 1]
    assert rows["time_s"].tolist() == [1_790_000_000.0] * 3 + [1_790_000_060.0]
    assert rows["group"].tolist() == [Group.NONE] * 3 + [Group.CONTROL]
    assert rows["block"].tolist() == [-1, -1, -1, 7]


def test_what_is_no_log_is_the_command_lines_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["outcomes", str(tmp_path / "nowhere")]) == 2
    assert "outcomes" in capsys.readouterr().err


def flow_row(cookie: int, born_s: float, ended_s: float, arm: int = 1, visit: int = 0) -> np.ndarray:
    """A row of a flow, shape (1,)."""
    made = np.zeros(1, log.ROW_DTYPE)
    made["time_s"] = ended_s
    made["outcome"] = outcome(cookie, age_ns=round((ended_s - born_s) * 1e9), arm=arm, visit=visit)
    return made


def test_visits_end_after_a_second_without_a_flow_or_after_a_minute() -> None:
    rows = np.concatenate(
        [
            flow_row(1, 100, 105),
            flow_row(2, 105.9, 106),
            flow_row(3, 107.1, 108),
            # One long flow holds the next visit open, for a minute.
            flow_row(4, 200, 300),
            flow_row(5, 258, 259),
            flow_row(6, 262, 263),
        ]
    )
    found = log.visits_of(rows)
    assert sorted(found.flows.tolist()) == [1.0, 1.0, 2.0, 2.0]
    assert found.ended_s.tolist() == [106.0, 108.0, 263.0, 300.0]
    assert found.names == ["192.0.2.0/24"]


def test_the_modules_visits_are_taken_as_they_are() -> None:
    rows = np.concatenate(
        [flow_row(1, 100, 101, visit=1), flow_row(2, 100, 101, visit=2), flow_row(3, 150, 151, visit=2)]
    )
    found = log.visits_of(rows)
    assert found.flows.tolist() == [1.0, 2.0]


def test_a_numbered_visit_may_span_a_full_hour_and_its_number_may_come_again_after_a_boot() -> None:
    hour_s = 1_700_000_000 // 3600 * 3600 + 3600
    rows = np.concatenate(
        [
            flow_row(1, hour_s - 20, hour_s - 10, visit=7),
            flow_row(2, hour_s + 20, hour_s + 30, visit=7),
            flow_row(3, hour_s + 900, hour_s + 910, visit=7),
        ]
    )
    assert log.visits_of(rows).flows.tolist() == [2.0, 1.0]


def test_arms_of_one_time_are_different_visits() -> None:
    found = log.visits_of(np.concatenate([flow_row(1, 100, 101, arm=1), flow_row(2, 100, 101, arm=2)]))
    assert sorted(found.arms.tolist()) == [1, 2]


def test_a_visit_is_the_mean_of_its_flows_by_their_information() -> None:
    rows = np.concatenate([flow_row(1, 100, 102), flow_row(2, 100, 102), flow_row(3, 500, 502)])
    # The first flow has twice the throughput of the others at half of their RTT; all say equally much.
    for name in ("busy_us", "rtt_us_sum"):
        rows["outcome"][name][0] /= 2
    found = log.visits_of(rows)
    assert found.values[0] - found.values[1] == pytest.approx(np.log(8) / 2)
    assert found.information[0] == pytest.approx(2 * found.information[1])


def fixed_arms(folder: Path) -> None:
    """A log of two prefixes: on the first bbr earns four times as much as cubic, on the second half."""
    rng = np.random.default_rng(5)
    writer = LogWriter(log.OUTCOMES, folder, 10**8, {1: "cubic", 2: "bbr"})
    cookie = 0
    for prefix, factor in ((1, 2.0), (2, 0.7)):
        for arm in (1, 2):
            for number in range(30):
                cookie += 1
                at_s = 1e6 * arm + 10.0 * number
                row = flow_row(cookie, at_s, at_s + 2, arm=arm)
                row["outcome"]["daddr"][0, 2] = prefix
                row["outcome"]["acked_bytes"] = round(1e6 * np.exp(rng.normal(0, 0.05)))
                row["outcome"]["rtt_us_sum"] //= round(factor**2 * 100) if arm == 2 else 100
                writer.append(row)
    writer.close()


def test_a_replay_tells_how_much_of_the_gap_is_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed_arms(tmp_path)
    assert main(["replay", str(tmp_path), "--decision", "cubic", "--seeds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["arms"] == ["cubic", "bbr"]
    assert found["prefixes"] == ["192.0.1.0/24", "192.0.2.0/24"]
    last = found["windows"][-1]
    assert (last["first"], last["last"]) == (101, 400)
    assert last["best_gain"] == pytest.approx(np.log(4) / 2, abs=0.1)
    assert last["closed"] > 0.9
    assert main(["replay", str(tmp_path), "--decision", "cubic", "--visits", "5", "--terse"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("\t")[0] == "1 to 5"


@pytest.mark.parametrize(
    ("given_", "named_"),
    [(["--decision", "vegas"], "cubic, bbr"), (["--decision", "cubic", "--least", "31"], "cubic, bbr")],
)
def test_a_replay_that_cannot_be_says_why(
    given_: list[str], named_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed_arms(tmp_path)
    assert main(["replay", str(tmp_path), *given_]) == 2
    error = capsys.readouterr().err
    assert given_[-2] in error
    assert named_ in error
