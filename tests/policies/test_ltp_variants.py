# SPDX-License-Identifier: Apache-2.0
"""LTP's variants see the inputs of their papers; the probe reward has the size that the lab notes give."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ltp_switcher.arrays import Floats
from ltp_switcher.policies.ltp import evaluate, variants
from ltp_switcher.policies.ltp.signals import LtpSignals
from ltp_switcher.policies.ltp.task import FLOWS, REGIONS, ROSTER, LtpTask, critics_see
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.policies.simulator import Flows, Paths, Roster, Simulator
from ltp_switcher.policies.simulator.tasks import Environment

SLOT = np.array([0])


def interval(
    acked: float = 25.0, lost: float = 0.0, rtt_s: float = 0.05, sent: float = 30.0, in_flight: float = 60.0
) -> Interval:
    """30 ms of a flow with a window of 80 packets and a base RTT of 40 ms."""
    one = np.ones(1)
    unheard = Echo(-one, *(np.full(1, np.nan) for _ in range(4)))
    return Interval(
        index=1, end_s=0.06, length_s=0.03, active=one > 0, sent_pkts=sent * one, acked_pkts=acked * one,
        lost_pkts=lost * one, rtt_s=rtt_s * one, rtt_min_s=0.04 * one, window_pkts=80.0 * one,
        pacing_pps=1000.0 * one, in_flight_pkts=in_flight * one, turn_pkts=0.0 * one,
        echo=unheard, previous_echo=unheard,
    )  # fmt: skip


def seen(name: str, *intervals: Interval) -> Floats:
    """What the variant sees in the last of these intervals."""
    signals = variants.VARIANTS[name].signals()
    signals.begin(SLOT, np.array([80.0]))
    for one in intervals:
        observed = signals.observe(SLOT, one)
    assert observed.shape == (1, signals.observation_size)
    return observed[0].astype(np.float64)


# Throughput 500 a second after a largest of 1000; sent 800 a second; loss 1 of 16; 40 of 80 in flight; RTT
# 50 ms of 40.
BEFORE, AFTER = interval(acked=30.0), interval(acked=15.0, lost=1.0, sent=24.0, in_flight=40.0)
ORCA = [0.5, 0.8, 0.625, 0.5, 0.8]


def test_orca_sees_ratios() -> None:
    np.testing.assert_allclose(seen("orca", BEFORE, AFTER), ORCA, rtol=1e-6)


@pytest.mark.parametrize("name", ["astraea", "oracle"])
def test_astraea_sees_the_largest_throughput_and_the_least_rtt_as_well(name: str) -> None:
    """1000 packets of 1500 bytes a second are 12 Mbit/s, of 100; 40 ms, of 100."""
    np.testing.assert_allclose(seen(name, BEFORE, AFTER), [*ORCA, 0.12, 0.4], rtol=1e-6)


def test_aurora_sees_gradient_latency_ratio_and_sending_ratio() -> None:
    after = interval(acked=15.0, rtt_s=0.056, sent=24.0)
    np.testing.assert_allclose(seen("aurora", BEFORE, after), [0.2, 0.4, 0.6], rtol=1e-5)


def test_sage_sees_mean_least_and_largest_of_its_windows() -> None:
    """Three intervals of 50 ms and one of 58; before the first, everything was as in it."""
    last = interval(rtt_s=0.058)
    features = seen("sage", *[interval()] * 3, last)
    assert features.shape == (61,)
    statistics = features[:54].reshape(3, 3, 6)
    rtt = statistics[:, :, 0]
    np.testing.assert_allclose(rtt[0], [0.52, 0.5, 0.58], rtol=1e-5)
    np.testing.assert_allclose(rtt[1], [0.505, 0.5, 0.58], rtol=1e-5)
    np.testing.assert_allclose(rtt[2], [0.50125, 0.5, 0.58], rtol=1e-5)
    # Throughput of 100 Mbit/s, RTT over the last, its change, share of the window in flight, loss.
    np.testing.assert_allclose(statistics[0, 2, 1:], [0.1, 1.16, 0.08, 0.75, 0.0], atol=1e-6)
    np.testing.assert_allclose(features[54:], [1.0, 1.2, 0.0, 0.75, 0.04 / 0.058, 0.1, 0.4], rtol=1e-5)


def test_the_oracle_sees_the_links_utilisation_and_its_queue() -> None:
    """§2.2, on links of 1000 packets a second: a window of 70 packets more than fills one, 20 half."""
    oracle = variants.VARIANTS["oracle"]
    signals = oracle.signals()
    task = LtpTask(signals, 1, particles=0, bounded=False)
    paths, flows = Paths.uniform(2, rate_mbps=12.0, rtt_ms=40.0, buffer_bdp=3.0), Flows.forever(1, 2)
    simulator = Simulator(paths, flows, Roster(window=1), seed=1, interval_s=0.03)
    task.begin(simulator, paths, flows)
    for _ in range(60):
        simulator.set_window(np.array([[70.0, 20.0]]))
        observed, _ = task.observe(simulator.step())
    everything = observed[:, signals.observation_size :].astype(np.float64)
    truths = everything[:, : oracle.truths]
    assert oracle.truths == 2
    # Of the 70 packets the link itself holds 40 and the bit that is being sent; the others wait, a ms each.
    np.testing.assert_allclose(truths[0], [1.0, np.log1p(0.030 / 0.005)], rtol=0.05)
    np.testing.assert_allclose(truths[1], [0.5, 0.0], atol=0.05)
    # The critics' truths: log of RTT over base, of the base RTT (40 ms and a packet) over 30 ms, and of the
    # window over the bandwidth-delay product; then shares, unfairness, loss, company.
    np.testing.assert_allclose(everything[0, 2:5], np.log([70 / 41, 41 / 30, 70 / 41]), atol=0.02)
    np.testing.assert_allclose(everything[1, 2:5], np.log([1.0, 41 / 30, 20 / 41]), atol=0.03)
    np.testing.assert_allclose(everything[:, 5:], 0.0, atol=1e-6)


def test_the_critics_see_shares_unfairness_loss_and_company() -> None:
    """Two flows of 60 and 20 packets beside a Cubic flow, on a link that loses a tenth."""
    task = LtpTask(LtpSignals(), 2, particles=0, bounded=False)
    paths, flows = Paths.uniform(1, rate_mbps=60.0, rtt_ms=40.0, loss=0.1), Flows.forever(3, 1)
    simulator = Simulator(paths, flows, Roster(window=2, cubic=1), seed=1, interval_s=0.03)
    task.begin(simulator, paths, flows)
    delivered, losses = [], []
    for _ in range(200):
        simulator.set_window(np.array([[60.0], [20.0]]))
        interval = simulator.step()
        delivered.append(interval.delivered_pps[:, 0])
        observed, _ = task.observe(interval)
        losses.append(observed[:, LtpSignals.observation_size + 7].mean())
    average = np.mean(delivered[-60:], axis=0)
    share = average / average.sum()
    own, uneven, _, company = observed[:, LtpSignals.observation_size + 5 :].T
    np.testing.assert_allclose(own, 3.0 * share[:2] - 1.0, atol=0.15)
    # Eq. 14 over three flows, twice.
    np.testing.assert_allclose(uneven, 2.0 * np.sqrt(((share - 1 / 3) ** 2).sum() / 3.0), atol=0.1)
    assert np.mean(losses[20:]) == pytest.approx(10.0 * 0.1, abs=0.15)
    np.testing.assert_array_equal(company, 1.0)


@pytest.mark.parametrize("region", ["small", "large"])
def test_the_probe_reward_is_zero_on_average(region: str) -> None:
    """§5: "We set the constant β_r to ensure the average probe reward is zero"; Table 4: it weighs 0.2."""
    task = LtpTask(LtpSignals(), ROSTER.window, particles=200)
    drawn = replace(REGIONS[region], flows=FLOWS)
    environment = Environment(task, drawn, ROSTER, environments=8, duration_s=4.0)
    transition = environment.reset(1)
    rng = np.random.default_rng(1)
    probes: list[Floats] = []
    while not transition.over:
        transition = environment.step(rng.uniform(-1, 1, (environment.slots, 1)).astype(np.float32))
        probe = (transition.rewards - task.performance.reshape(-1)) / 0.2
        probes.append(probe[transition.active])
    assert abs(np.concatenate(probes).mean()) < 0.15


def test_swings_of_the_rate_do_not_pay(capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of "Does the probe reward pay for probing?" in docs/lab-notes/ltp.md."""
    assert evaluate.main(["--json", "swings", "--particles", "1000"]) == 0
    judged = json.loads(capsys.readouterr().out)
    expected = {
        "particles": [0.46, 0.34, 0.30, 0.38],
        "particles, none drawn anew": [1.19, 0.83, 1.01, 1.04],
        "balance": [0.05, 0.04, 0.02, 0.01],
    }
    assert set(judged) == set(expected)
    for name, rewards in judged.items():
        assert list(rewards) == ["0", "0.025", "0.1", "0.25"]
        assert list(rewards.values()) == pytest.approx(expected[name], abs=0.03)


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_every_variant_can_be_trained(name: str) -> None:
    made = variants.VARIANTS[name].signals()
    particles = 20 if variants.VARIANTS[name].probe else 0
    size = critics_see(made, probe=particles > 0)
    task = LtpTask(made, ROSTER.window, particles=particles)
    region = replace(REGIONS["small"], flows=FLOWS)
    environment = Environment(task, region, ROSTER, environments=3, duration_s=0.9)
    transition = environment.reset(1)
    rng = np.random.default_rng(1)
    while not transition.over:
        transition = environment.step(rng.uniform(-1, 1, (environment.slots, 1)).astype(np.float32))
        assert transition.observations.shape == (environment.slots, size)
        assert np.isfinite(transition.observations).all()
        assert np.isfinite(transition.rewards).all()
    assert transition.rewards.any()


def test_only_ltp_no_probe_trains_under_another_reward() -> None:
    # §2.2 and §7.2: the inputs are compared "using the same reward function".
    assert [name for name, made in variants.VARIANTS.items() if not made.probe] == ["ltp-no-probe"]
