# SPDX-License-Identifier: Apache-2.0
"""The link's arithmetic, the module's own code compiled for user space, against independent models."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.link_logic import build_driver

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.schedule import capacity_mbps, encode, from_offset, link_trace, queue_packets
from ltp_switcher.eval.run.scenario import Flow, Link, LinkStep, Scenario
from ltp_switcher.policies.simulator.delivery_traces import (
    TraceArray,
    mean_rate_mbps,
    model_trace,
    read_trace,
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(Path(__file__).parent / "schedule_driver.c", tmp_path_factory.mktemp("link"))


def depart(driver: Path, blob: bytes, packets: list[tuple[int, int]], tmp_path: Path) -> list[int]:
    (tmp_path / "schedule").write_bytes(blob)
    text = "".join(f"{t_ns} {size}\n" for t_ns, size in packets)
    done = subprocess.run(
        [str(driver), str(tmp_path / "schedule")], input=text, capture_output=True, text=True, check=True
    )
    return [int(line) for line in done.stdout.split()]


def scenario(link: Link, duration_s: float = 10.0) -> Scenario:
    return Scenario("test", duration_s, link, (Flow("cubic", 0.0, duration_s),))


def mahimahi(trace: TraceArray, packets: list[tuple[int, int]]) -> list[int]:
    """mm-link's rule told packet by packet: every opportunity serves 1500 bytes of what waits then."""
    times: list[int] = []
    waiting: list[list[int]] = []
    arrivals = list(packets)
    period = int(trace[-1])
    cycle = 0
    while len(times) < len(packets):
        for at_ms in trace.tolist():
            now_ns = (cycle * period + at_ms) * 1_000_000
            while arrivals and arrivals[0][0] <= now_ns:
                waiting.append([arrivals.pop(0)[1]])
            left = 1500
            while waiting and left:
                served = min(left, waiting[0][0])
                waiting[0][0] -= served
                left -= served
                if waiting[0][0] == 0:
                    waiting.pop(0)
                    times.append(now_ns)
        cycle += 1
    return times


def random_packets(seed: int, count: int, span_ms: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, span_ms * 1_000_000, count))
    sizes = rng.choice([40, 52, 576, 1500], count)
    return list(zip(times.tolist(), sizes.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_trace_serves_as_mahimahi_does(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    trace = np.sort(rng.integers(0, 700, 400)).astype(np.uint32)
    packets = random_packets(seed, 1500, 2500)
    blob = encode(scenario(Link(rtt_ms=20.0, trace="/x")), trace, 1)
    assert depart(driver, blob, packets, tmp_path) == mahimahi(trace, packets)


def test_a_backlog_uses_every_opportunity_to_the_millisecond(driver: Path, tmp_path: Path) -> None:
    trace = model_trace()
    packets = [(0, 1500)] * len(trace)
    blob = encode(scenario(Link(rtt_ms=20.0, trace="/x")), trace, 1)
    assert depart(driver, blob, packets, tmp_path) == [int(t) * 1_000_000 for t in trace]


def test_rate_steps_take_effect_in_the_middle_of_a_packet(driver: Path, tmp_path: Path) -> None:
    link = Link(rtt_ms=20.0, rate_mbps=12.0, steps=(LinkStep(1.0005, 24.0), LinkStep(2.0, 0.5)))
    packets = [(0, 1500)] * 3500
    times = depart(driver, encode(scenario(link), None, 1), packets, tmp_path)
    # Bits that have left by then, exactly; the link is never idle.
    bounds = [(0, 12_000_000), (1_000_500_000, 24_000_000), (2_000_000_000, 500_000)]

    def sent_bits(t_ns: int) -> Fraction:
        total = Fraction(0)
        for i, (start, rate) in enumerate(bounds):
            end = bounds[i + 1][0] if i + 1 < len(bounds) else t_ns
            total += Fraction(max(0, min(end, t_ns) - start) * rate, 10**9)
        return total

    for n, t_ns in enumerate(times, start=1):
        # Each packet may round up by a nanosecond.
        assert 0 <= sent_bits(t_ns) - n * 12_000 <= Fraction(n * 24_000_000, 10**9)


def test_idle_time_is_not_saved_up(driver: Path, tmp_path: Path) -> None:
    blob = encode(scenario(Link(rtt_ms=20.0, rate_mbps=12.0)), None, 1)
    assert depart(driver, blob, [(0, 1500), (5_000_000, 1500)], tmp_path) == [1_000_000, 6_000_000]


@pytest.mark.parametrize("offset_s", [0.0, 0.020, 0.035, 0.1, 0.25])
def test_an_offset_begins_in_the_middle_of_the_trace(offset_s: float) -> None:
    trace = np.array([0, 10, 20, 20, 35, 60, 100], dtype=np.uint32)
    began_ms = next(int(t) for t in trace if t >= round(offset_s * 1e3) % 100)
    whole = [c * 100 + int(t) - began_ms for c in range(9) for t in trace]
    shifted = from_offset(trace, offset_s)
    found = [c * 100 + int(t) for c in range(6) for t in shifted]
    assert [t for t in found if 0 < t < 500] == [t for t in whole if 0 < t < 500]
    assert len(shifted) == len(trace)


def test_a_trace_that_is_not_there_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LTP_TRACES", str(tmp_path / "gone"))
    # No other test has these names.
    names = [f"{tmp_path.name}.{direction}" for direction in ("down", "up")]
    runs = [scenario(Link(rtt_ms=20.0, trace=name)) for name in names * 3]
    with ThreadPoolExecutor(len(runs)) as pool:
        for trace in pool.map(link_trace, runs):
            assert trace is not None
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    for name in names:
        assert any(f"an LTE-like model replaces {name};" in line for line in told)


@given(st.integers(1, 50_000_000), st.integers(2, 40), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_policer_is_a_token_bucket(
    driver: Path, tmp_path: Path, rate_bps: int, burst_pkts: int, seed: int
) -> None:
    police_mbps = max(0.1, rate_bps / 1e6)
    link = Link(rtt_ms=20.0, rate_mbps=1000.0, police_mbps=police_mbps, police_burst_pkts=burst_pkts)
    packets = random_packets(seed, 400, 1500)
    times = depart(driver, encode(scenario(link), None, 1), packets, tmp_path)
    bucket = tokens = Fraction(burst_pkts * 1500 * 8)
    before_ns = 0
    for (t_ns, size), left_ns in zip(packets, times, strict=True):
        tokens = min(bucket, tokens + Fraction((t_ns - before_ns) * round(police_mbps * 1e6), 10**9))
        before_ns = t_ns
        passes = tokens >= size * 8
        tokens -= size * 8 if passes else 0
        assert (left_ns >= 0) == passes


def test_malformed_schedules_are_refused(driver: Path, tmp_path: Path) -> None:
    good = encode(scenario(Link(rtt_ms=20.0, rate_mbps=12.0)), None, 1)
    for bad in (b"", good[:-1], good + b"\0", b"\0" + good[1:], good[:8] + b"\0\0\0\0" + good[12:]):
        (tmp_path / "bad").write_bytes(bad)
        done = subprocess.run([str(driver), str(tmp_path / "bad")], input="", text=True, check=False)
        assert done.returncode == 3


def test_capacity_counts_steps_and_opportunities() -> None:
    link = Link(rtt_ms=20.0, rate_mbps=10.0, steps=(LinkStep(0.25, 20.0),))
    np.testing.assert_allclose(
        capacity_mbps(scenario(link, 0.5), None), [10.0, 10.0, 15.0, 20.0, 20.0], rtol=1e-12
    )
    trace = np.array([0, 50, 100, 100, 150], dtype=np.uint32)
    per_bin = capacity_mbps(scenario(Link(rtt_ms=20.0, trace="/x"), 0.5), trace) / 0.12
    expected = [
        sum(1 for c in range(5) for t in trace.tolist() if low <= c * 150 + t < low + 100)
        for low in range(0, 500, 100)
    ]
    np.testing.assert_allclose(per_bin, expected, rtol=1e-12)


def test_queue_holds_the_buffer_and_the_packet_in_service() -> None:
    assert queue_packets(scenario(Link(rtt_ms=40.0, rate_mbps=12.0)), None) == 41
    assert queue_packets(scenario(Link(rtt_ms=1.0, rate_mbps=0.1)), None) == 2
    trace = np.arange(1, 1001, dtype=np.uint32)
    assert mean_rate_mbps(trace) == 12.0
    assert queue_packets(scenario(Link(rtt_ms=40.0, trace="/x", buffer_bdp=2.0)), trace) == 81


def test_the_model_is_always_the_same_and_looks_like_lte() -> None:
    trace = model_trace()
    np.testing.assert_array_equal(trace, model_trace())
    assert trace[-1] == 120_000
    assert 8.0 < mean_rate_mbps(trace) < 16.0
    per_second = np.bincount(trace // 1000, minlength=120)[:120] * 0.012
    low, high = np.quantile(per_second, [0.05, 0.95])
    assert low < 5.0
    assert high > 20.0


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("1\n2 3\n", "line 2: 2 3", "one whole number"),
        ("1\n\n3\n4x\n", "line 2: ", "from 1 to 86400000"),
        ("1700000000\n1700000001\n", "line 1: 1700000000", "times since 1970"),
        ("5\n86400001\n", "line 2: 86400001", "a day"),
        ("9" * 5000, "line 1: 9999", "86400000"),
        ("".join(f"{at}\n" for at in range(0, 60_000_000, 1000)), "", "are these microseconds?"),
    ],
)
def test_lines_and_times_that_are_wrong_are_told_with_what_is_allowed(
    tmp_path: Path, text: str, place: str, said: str
) -> None:
    """Seconds since 1970, and a minute of 12 Mbit/s in microseconds."""
    path = tmp_path / "bad.down"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_trace(path)
    assert place in str(caught.value)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", ["", "0\n", "5\n4\n", "1\nx\n", "-1\n", "1.5\n"])
def test_bad_traces_name_what_is_wrong(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.down"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"link\.trace"):
        read_trace(path)
