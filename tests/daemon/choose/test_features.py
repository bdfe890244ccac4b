# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.slots import begun

from ltp_switcher.daemon.choose.bandit.features import (
    FEATURES,
    N_FEATURES,
    SIGNALS,
    WINDOWS,
    BlockWindows,
    FeatureWindows,
)
from ltp_switcher.daemon.datapath.protocol import RECORD_DTYPE

STATS = {"srtt_us": "srtt_stat", "mdev_us": "mdev_stat", "lost_out": "lost_out_stat",
         "in_flight": "in_flight_stat", "throughput": "throughput_stat"}  # fmt: skip
COLUMN = {feature.name: i for i, feature in enumerate(FEATURES)}


def random_records(
    rng: np.random.Generator, n: int, rate_Bps: float = 5e6, rtt_us: float = 4e4
) -> np.ndarray:
    records = np.zeros(n, RECORD_DTYPE)
    samples = rng.integers(0, 6, n)
    records["samples"] = samples
    records["interval_ns"] = 10_000_000
    records["delivered"] = rng.integers(0, 50, n)
    records["lost"] = rng.integers(0, 3, n)
    records["delivery_rate"] = rng.uniform(0.2, 1, n) * rate_Bps
    records["rtt_us"] = records["srtt_us"] = rng.uniform(1, 3, n) * rtt_us
    records["min_rtt_us"] = rtt_us
    records["mdev_us"] = rng.uniform(0, 0.2, n) * rtt_us
    records["snd_cwnd"] = np.maximum(rng.uniform(0.5, 2, n) * rate_Bps * rtt_us / 1.448e9, 1)
    records["in_flight"] = records["snd_cwnd"]
    records["lost_out"] = rng.integers(0, 3, n)
    records["retrans_out"] = rng.integers(0, 3, n)
    records["advmss"] = records["mss"] = 1448
    records["arm"] = rng.integers(1, 12, n)
    records["prev_arm"] = rng.integers(1, 12, n)
    now = {"srtt_us": "srtt_us", "mdev_us": "mdev_us", "lost_out": "lost_out", "in_flight": "in_flight",
           "throughput": "delivery_rate"}  # fmt: skip
    for signal, stat in STATS.items():
        base = records[now[signal]].astype(float)
        records[stat]["min"] = base * 0.9
        records[stat]["max"] = base * 1.1
        records[stat]["sum"] = base * samples
        for field in ("min", "max", "sum"):
            records[stat][field][samples == 0] = 0
    return records


def naive_bold(history: list[np.void], signal: str, span: int, length: int) -> tuple[float, float, float]:
    """The statistics of one flow's window, from its whole history."""
    partial = (len(history) - 1) % length + 1
    steps = min(len(history), span - length + partial)
    now = {"throughput": "delivery_rate"}.get(signal, signal)
    low, high, mean = [], [], []
    for record in history[-steps:]:
        stat = record[STATS[signal]]
        if record["samples"]:
            low.append(float(stat["min"]))
            high.append(float(stat["max"]))
            mean.append(float(stat["sum"]) / float(record["samples"]))
        else:
            for series in (low, high, mean):
                series.append(float(record[now]))
    return float(np.mean(mean)), min(low), max(high)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 1400))
def test_windows_equal_a_naive_reference(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    windows = begun(FeatureWindows(), 5)
    histories: dict[int, list[np.void]] = {slot: [] for slot in range(5)}
    raw = np.empty((0, N_FEATURES))
    slots = np.arange(5)
    for _ in range(steps):
        slots = rng.permutation(5)[: rng.integers(1, 6)]
        records = random_records(rng, len(slots))
        raw, _references = windows.push_raw(slots, records)
        for slot, record in zip(slots, records, strict=True):
            histories[int(slot)].append(record)
    for row, slot in zip(raw, slots, strict=True):
        history = histories[int(slot)]
        last = history[-1]
        for signal in SIGNALS:
            for name, blocks, length in WINDOWS:
                at = COLUMN[f"{signal}_mean_{name}"]
                np.testing.assert_allclose(
                    row[at : at + 3], naive_bold(history, signal, blocks * length, length), rtol=1e-9
                )
        for name, field in [
            ("snd_cwnd", "snd_cwnd"),
            ("rtt_us", "rtt_us"),
            ("min_rtt", "min_rtt_us"),
            ("advmss", "advmss"),
            ("delivered", "delivered"),
            ("rate", "delivery_rate"),
            ("retrans_out", "retrans_out"),
            ("prev_proto", "prev_arm"),
            ("crt_proto", "arm"),
        ]:
            assert row[COLUMN[name]] == float(last[field])
        lost, delivered = float(last["lost"]), float(last["delivered"])
        assert row[COLUMN["loss_rate"]] == pytest.approx(lost / max(lost + delivered, 1))


def test_there_are_55_and_names_are_unique() -> None:
    assert len(FEATURES) == N_FEATURES == len(COLUMN)


def test_reset_makes_a_slot_new() -> None:
    rng = np.random.default_rng(1)
    used, fresh = begun(FeatureWindows(), 2), begun(FeatureWindows(), 2)
    for _ in range(333):
        used.push(np.arange(2), random_records(rng, 2))
    used.reset(np.array([1]))
    for _ in range(77):
        records = random_records(rng, 1)
        seen = used.push(np.array([1]), records)
        np.testing.assert_array_equal(seen, fresh.push(np.array([1]), records))


@settings(max_examples=40, deadline=None)
@given(st.floats(1.25e4, 1.25e9), st.floats(100, 8e5), st.integers(0, 2**31))
def test_scaled_features_are_of_order_one_on_any_path(rate_Bps: float, rtt_us: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = begun(FeatureWindows(), 4)
    for _ in range(30):
        scaled = windows.push(np.arange(4), random_records(rng, 4, rate_Bps, rtt_us))
    assert scaled.dtype == np.float32
    assert np.isfinite(scaled).all()
    assert np.abs(scaled).max() <= 4


def test_relative_features_do_not_see_the_scale() -> None:
    """Twice the rate and twice the packets: only `rate` may change."""
    slow, fast = begun(FeatureWindows()), begun(FeatureWindows())
    scalable = ("delivered", "lost", "delivery_rate", "snd_cwnd", "in_flight", "lost_out", "retrans_out")
    for seed in range(60):
        records = random_records(np.random.default_rng(seed), 1, rate_Bps=3e7)
        doubled = records.copy()
        for name in scalable:
            doubled[name] = records[name] * 2
        for name in ("lost_out_stat", "in_flight_stat", "throughput_stat"):
            for field in ("min", "max", "sum"):
                doubled[name][field] = records[name][field] * 2
        one = slow.push(np.zeros(1, np.intp), records)
        two = fast.push(np.zeros(1, np.intp), doubled)
    others = [i for name, i in COLUMN.items() if name != "rate"]
    np.testing.assert_allclose(one[0, others], two[0, others], atol=1e-5)


def test_the_windows_span_at_most_their_size() -> None:
    windows = begun(BlockWindows())
    slot = np.zeros(1, np.intp)
    for t in range(1200):
        value = np.full((1, 5), float(t))
        out = np.empty((1, 5, 3, 3))
        windows.push(slot, np.array([t]), np.concatenate([value, -value], axis=1), value, out)
        span = out[0, 0, :, 2] - out[0, 0, :, 1] + 1
        assert span.tolist() == [min(t + 1, 10), min(t + 1, 191 + t % 10), min(t + 1, 951 + t % 50)]
        assert np.allclose(out[0, 0, :, 0], t - (span - 1) / 2)
