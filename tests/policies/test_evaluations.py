# SPDX-License-Identifier: Apache-2.0
"""The commands that judge policies: which links they run, and their arithmetic, on outcomes made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.figures import Figure, Target
from ltp_switcher.policies.jury import evaluate as jury
from ltp_switcher.policies.ltp import evaluate as ltp
from ltp_switcher.policies.ltp import held_out, links
from ltp_switcher.policies.owl import evaluate as owl
from ltp_switcher.policies.owl.task import SimulatedAgent
from ltp_switcher.policies.runtime.arm import Arm, Law
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster
from ltp_switcher.policies.simulator.totals import Totals
from ltp_switcher.policies.spine import evaluate as spine
from ltp_switcher.policies.spine.play import SpineRun

Captured = pytest.CaptureFixture[str]


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.what: figure for figure in figures}


def test_owl_plays_traces_and_a_link_of_constant_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two traces of 24 and 6 Mbit/s and a link of 50, three times each; Owl's power is twice Cubic's."""
    fast = np.repeat(np.arange(1, 601), 2)
    slow = np.arange(2, 1201, 2)
    monkeypatch.setattr(owl, "held_out_traces", lambda: {"fast": fast, "slow": slow})
    runs: list[tuple[Paths, Roster]] = []

    def play(paths: Paths, _: Flows, roster: Roster, network: object, agents: object = None) -> Totals:
        runs.append((paths, roster))
        gain = 1.0 if network is None else 2.0
        hidden = 0.9 if agents == SimulatedAgent.hidden else 1.0
        received = np.array([[20.0, 20.0, 20.0, 5.0, 5.0, 5.0, 49.0, 50.0, 51.0]])
        rtt_s = np.array([[0.08] * 6 + [0.05, 0.06, 0.07]])
        # 250 packets of 1500 bytes in 3 s are 1 Mbit/s.
        acked, nothing = 250.0 * received, np.zeros_like(received)
        return Totals(acked, acked, nothing, acked * rtt_s / gain / hidden, nothing[0], length_s=3.0)

    monkeypatch.setattr(owl, "play", play)
    figures = by_name(owl.one_flow(object()))
    paths, _ = runs[0]
    np.testing.assert_allclose(paths.rate_mbps, [24.0] * 3 + [6.0] * 3 + [50.0] * 3)
    # Of the constant link one bandwidth-delay product.
    np.testing.assert_allclose(paths.buffer_pkts, [1000.0] * 6 + [50e6 / 8 / 1500 * 0.040] * 3)
    assert (paths.rtt_ms == 40.0).all()
    assert paths.trace.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1]
    assert paths.trace_start_ms.tolist() == [0, 200, 400, 0, 400, 800, 0, 0, 0]
    assert [(roster.window, roster.cubic) for _, roster in runs] == [(1, 0), (1, 0), (0, 1)]
    for name in ("power over Cubic's, fast", "power over Cubic's, slow"):
        assert figures[name].value == pytest.approx(2.0)
        assert (figures[name].target, figures[name].met) == (Target(low=1.5), True)
    hidden = figures["power, network hidden over known"]
    assert (hidden.value, hidden.target, hidden.met) == (pytest.approx(0.9), Target(low=0.95), False)
    assert figures["alone, 50 Mbit/s, 40 ms: utilisation"].value == pytest.approx(1.0)
    assert figures["alone, 50 Mbit/s, 40 ms: RTT over base"].value == pytest.approx(0.06 / 2.0 / 0.04)


def test_owl_beside_cubic(monkeypatch: pytest.MonkeyPatch) -> None:
    def beside_cubic(_: object, rate_mbps: Floats, rtt_ms: Floats, agents: object) -> Floats:
        return rate_mbps / 100.0 * (1.0 if agents == SimulatedAgent.hidden else 3.0) + 0.0 * rtt_ms

    monkeypatch.setattr(owl, "beside_cubic", beside_cubic)
    figures = by_name(owl.friendliness(object()))
    assert len(figures) == 12
    known, hidden = (
        figures[f"throughput over Cubic's, network {told}, 50 Mbit/s, 120 ms"] for told in ("known", "hidden")
    )
    assert (known.value, known.met, hidden.value, hidden.met) == (1.5, True, 0.5, True)
    assert figures["throughput over Cubic's, network known, 100 Mbit/s, 30 ms"].met is False
    assert known.target == Target(low=0.5, high=2.0)


def test_owl_loss_at_its_equilibrium(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    calls: list[tuple[int, float, float]] = []

    def from_equilibrium(_: object, count: int, *, rate_mbps: float, rtt_ms: float) -> float:
        calls.append((count, rate_mbps, rtt_ms))
        return 0.04 * count

    monkeypatch.setattr(owl, "from_equilibrium", from_equilibrium)
    two, three = owl.fairness(object())
    assert calls == [(2, 100.0, 30.0), (3, 100.0, 30.0)]
    # δ = 0.7: 100 / 2.1 and 100 / 2.8.
    assert (two.what, two.met) == ("2 flows: deviation from 47.6 Mbit/s", True)
    assert (three.what, three.met) == ("3 flows: deviation from 35.7 Mbit/s", False)
    monkeypatch.setattr(owl, "one_flow", lambda _: [Figure("owl", "power", 1.5, Target(low=1.5))])
    monkeypatch.setattr(owl, "friendliness", lambda _: [])
    assert owl.main(["--json"]) == 0
    assert [(one["value"], one["met"]) for one in json.loads(capsys.readouterr().out)] == [
        (1.5, True), (0.08, True), (0.12, False),
    ]  # fmt: skip
    assert owl.main([]) == 0
    table = capsys.readouterr().out
    assert "0.080" in table
    assert "missed" in table


def test_spine_s_links_and_figures(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Four links of each kind; the outcome of link k is made of k."""
    seen: list[tuple[Arm | None, Law, float, Paths]] = []

    def play(arm: Arm | None, law: Law, interval_s: float, paths: Paths, beside: Bools) -> SpineRun:
        seen.append((arm, law, interval_s, paths))
        number = np.arange(paths.count) // 4 + 1.0
        acked = np.stack((900.0 * number, 450.0 * number * beside))
        lost, rtts = np.stack((100.0 * number, number)), np.stack((36.0 * number, number))
        totals = Totals(acked + lost, acked, lost, rtts, served_pkts=1000.0 * number, length_s=38.0)
        return SpineRun(totals, generated=np.where(number == 2, 0.0, 10.0))

    monkeypatch.setattr(spine, "play", play)
    assert spine.main(["--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert list(judged) == [
        "spine 20 ms", "spine 50 ms", "spine 100 ms", "spine 200 ms", "spine 300 ms", "spine-cubic", "cubic",
    ]  # fmt: skip
    assert [(law, interval_s) for _, law, interval_s, _ in seen] == [
        *((Law.AIMD, interval_s) for interval_s in (0.02, 0.05, 0.1, 0.2, 0.3)),
        (Law.CUBIC, 0.2), (Law.CUBIC, 0.2),
    ]  # fmt: skip
    assert seen[-1][0] is None
    figures = judged["spine 100 ms"]
    assert figures["static"] == {
        "utilisation": 0.9, "rtt_ms": pytest.approx(40.0), "loss": 0.1, "ratio_to_cubic": None,
        "generator_every_s": spine.DURATION_S,
    }  # fmt: skip
    assert figures["beside cubic, 60 ms"]["ratio_to_cubic"] == 2.0
    assert figures["loss 1 %"]["generator_every_s"] == pytest.approx(spine.DURATION_S / 10.0)
    assert judged["cubic"]["static"]["generator_every_s"] is None
    paths = seen[0][3]
    assert paths.count == 24
    # §7.1: 750 KB on the square wave; else one bandwidth-delay product of 100 Mbit/s.
    np.testing.assert_allclose(paths.buffer_pkts[::4], [500.0, 250.0, 250.0, 250.0, 500.0, 1000.0])
    np.testing.assert_allclose(paths.loss[::4], [0.0, 0.0, 0.01, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(paths.rtt_ms[::4], [30.0, 30.0, 30.0, 30.0, 60.0, 120.0])
    assert paths.steps is not None
    np.testing.assert_array_equal(paths.steps.at_s[:, :4], np.repeat([[10.0], [20.0], [30.0]], 4, axis=1))
    assert np.isinf(paths.steps.at_s[:, 4:]).all()
    assert spine.main([]) == 0
    assert "spine 20 ms    square wave" in capsys.readouterr().out


def shares(*values: float, on_links: int = 1) -> jury.Run:
    """240 s on equal links in which flows hold these shares all the time, at twice their base RTT."""
    share = np.tile(np.array(values)[None, :, None], (33 * 240, 1, on_links))
    return jury.Run(share, np.full_like(share, 2.0))


def test_jurys_runs_are_judged_by_jain_and_use() -> None:
    uneven = shares(0.6, 0.2)
    # (0.8)² / (2 (0.36 + 0.04))
    assert uneven.jain == pytest.approx([0.8])
    assert uneven.jain_by_second == pytest.approx([0.8])
    assert uneven.utilisation == pytest.approx([0.8])
    turns = shares(0.6, 0.2)
    turns.share[::2] = turns.share[::2, ::-1]
    assert turns.jain == pytest.approx([1.0], abs=1e-3)
    turns.share[33 * 100 :] = 0.4
    assert len(turns.since(100.0).share) == 33 * 240 - 3333


@pytest.mark.parametrize(
    ("case", "shape", "duration_s", "rtt_ms", "cubic"),
    [
        ("three_flows", (3, 10), 120.0, None, 0),
        ("five_rtts", (5, 10), 240.0, [70.0, 110.0, 150.0, 190.0, 210.0], 0),
        ("satellite", (1, 10), 100.0, None, 0),
        ("beside_cubic", (2, 30), 120.0, None, 1),
    ],
)
def test_jury_s_cases(
    case: str,
    shape: tuple[int, int],
    duration_s: float,
    rtt_ms: list[float] | None,
    cubic: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played: list[Paths] = []

    def play(
        _: object,
        paths: Paths,
        start_s: Floats,
        length_s: float,
        *,
        rtt_ms: Floats | None = None,
        cubic: int = 0,
    ) -> jury.Run:
        played.append(paths)
        assert (start_s.shape, length_s) == (shape, duration_s)
        apart = {"three_flows": 30.0, "five_rtts": 30.0}.get(case, 0.0)
        np.testing.assert_array_equal(start_s[:, 0], apart * np.arange(len(start_s)))
        assert (None if rtt_ms is None else rtt_ms.ravel().tolist()) == expected_rtt
        assert cubic == expected_cubic
        return shares(*np.linspace(0.2, 0.3, len(start_s)), on_links=paths.count)

    expected_rtt, expected_cubic = rtt_ms, cubic
    monkeypatch.setattr(jury, "play", play)
    figures = getattr(jury, case)(object(), 10)
    (paths,) = played
    limits = [figure.target for figure in figures if figure.target is not None]
    targets = {
        "three_flows": [Target(low=0.94), Target(low=0.82)],
        "five_rtts": [Target(low=0.93)],
        "satellite": [Target(low=0.75), Target(high=1.05)],
        "beside_cubic": [Target(low=0.5, high=2.0)] * 3,
    }
    assert limits == targets[case]
    if case == "three_flows":
        # §5.1.1, as far as it is trained: 20 to 100 Mbit/s, 10 to 75 ms one way, up to 0.3 %.
        assert 20.0 <= paths.rate_mbps.min() < paths.rate_mbps.max() <= 100.0
        assert 20.0 <= paths.rtt_ms.min() < 90.0 < paths.rtt_ms.max() <= 150.0
        assert 0.0015 < paths.loss.max() <= 0.003
        assert by_name(figures)["3 flows, 10 links: Jain, mean"].value == pytest.approx(
            0.75**2 / (3 * (0.04 + 0.0625 + 0.09))
        )
        assert by_name(figures)["3 flows, 10 links: RTT / base"].value == 2.0
        np.testing.assert_allclose(paths.buffer_pkts, paths.rate_mbps * 1e6 / 12_000 * paths.rtt_ms / 1e3)
    elif case == "five_rtts":
        assert set(paths.rate_mbps) == {100.0}
        assert set(paths.rtt_ms) == {140.0}
    elif case == "satellite":
        assert (paths.rate_mbps[0], paths.rtt_ms[0], paths.loss[0]) == (42.0, 800.0, 0.0074)
    else:
        assert paths.rtt_ms.tolist() == [30.0] * 10 + [60.0] * 10 + [120.0] * 10
        assert [figure.value for figure in figures] == pytest.approx([0.2 / 0.3] * 3)


def test_jury_s_command(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    asked: list[int] = []

    def case(value: float) -> Callable[[Arm, int], list[Figure]]:
        return lambda _, links: asked.append(links) or [Figure("case", "name", value, Target(low=0.5))]

    for name, value in (("three_flows", 0.4), ("five_rtts", 0.6), ("satellite", 0.7), ("beside_cubic", 0.8)):
        monkeypatch.setattr(jury, name, case(value))
    monkeypatch.setattr(jury, "alone", lambda _: [Figure("alone", "RTT / base", 1.2)])
    assert jury.main(["--json", "--links", "25"]) == 0
    assert [one["met"] for one in json.loads(capsys.readouterr().out)] == [False, True, True, True, None]
    assert asked == [25, 2, 2, 2]
    asked.clear()
    assert jury.main(["--links", "5"]) == 0
    assert asked == [5, 1, 1, 1]
    text = capsys.readouterr().out
    assert text.count("missed") == 1
    assert text.count("≥ 0.5") == 4


def test_ltp_s_paths_are_averaged_by_the_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps of a link with two slots: alone, two of a kind, and one beside Cubic."""

    class Task:
        agents = 2
        observation_size = 5

        def __init__(self, *_: object, **options: object) -> None:
            assert options == {"particles": 7, "bounded": False}

        def told(self, beside: list[bool], alone: bool, performance: list[float]) -> None:
            self.beside_cubic, self.alone = np.array(beside)[:, None], np.array([alone])
            self.performance = np.array(performance)[:, None]

    class Seen:
        observations = np.zeros((2, 9), np.float32)

        def __init__(self, rewards: list[float], active: list[bool], over: bool) -> None:
            self.rewards, self.active, self.over = np.array(rewards), np.array(active), over

    class Environment:
        slots = 2

        def __init__(self, task: Task, *_: object, environments: int, duration_s: float) -> None:
            assert (environments, duration_s) == (100, 30.0)
            self.task, self.time = task, 0

        def reset(self, seed: int) -> Seen:
            return Seen([0.0, 0.0], [True, False], over=False)

        def step(self, actions: np.ndarray) -> Seen:
            self.time += 1
            if self.time == 1:
                self.task.told([False, False], True, [0.9, 0.0])
                return Seen([0.8, 9.0], [True, False], over=False)
            if self.time == 2:
                self.task.told([False, False], False, [0.5, 0.6])
                return Seen([0.4, 0.6], [True, True], over=False)
            self.task.told([True, False], False, [0.2, 0.0])
            return Seen([0.1, 9.0], [True, False], over=True)

    class Net:
        input_size = 5

        def __init__(self) -> None:
            self.states: list[list[float]] = []

        def initial_state(self, n: int) -> np.ndarray:
            return np.zeros((n, 1), np.float32)

        def step(self, state: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            assert inputs.shape == (2, 5)
            self.states.append(state.ravel().tolist())
            return state + 1.0, np.zeros((2, 1), np.float32)

    monkeypatch.setattr(held_out, "LtpTask", Task)
    monkeypatch.setattr(held_out, "Environment", Environment)
    steps: list[None] = []
    policy = held_out.Policy("ltp", held_out.VARIANTS["ltp"], Net())
    found = held_out.judge(policy, "small", particles=7, on_step=lambda: steps.append(None))
    assert len(steps) == 3
    assert found.reward == pytest.approx((0.8 + 0.4 + 0.6 + 0.1) / 4)
    assert found.performance == pytest.approx((0.9 + 0.5 + 0.6 + 0.2) / 4)
    assert (found.alone, found.among_themselves, found.beside_cubic) == pytest.approx((0.8, 0.5, 0.1))
    # The second slot had no flow before the last step: its memory stays empty.
    assert policy.network.states == [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]


def test_ltp_s_links_are_the_papers_one_factor_at_a_time() -> None:
    table = {link.name: link for link in links.LINKS}
    assert len(table) == len(links.LINKS) == 20
    assert table["reference"] == links.Link("", 100.0, 30.0, 0.0, 1.0, 0).__class__("reference")
    rates = [link.rate_mbps for name, link in table.items() if name.startswith("rate")]
    rtts = [link.rtt_ms for name, link in table.items() if name.startswith("RTT")]
    losses = [link.loss for name, link in table.items() if name.startswith("loss")]
    buffers = [link.buffer_bdp for name, link in table.items() if name.startswith("buffer")]
    cubics = [(link.rtt_ms, link.cubics) for name, link in table.items() if name.startswith("beside")]
    assert (rates, rtts) == ([10.0, 20.0, 50.0, 200.0], [15.0, 60.0, 90.0, 120.0])
    assert (losses, buffers) == ([0.001, 0.0025, 0.005, 0.01], [0.2, 0.5, 1.5, 2.2])
    assert cubics == [(30.0, 1), (60.0, 1), (120.0, 1)]
    assert (links.SATELLITE.rate_mbps, links.SATELLITE.rtt_ms, links.SATELLITE.loss) == (42.0, 800.0, 0.0074)


def test_ltp_s_command_shows_links(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    lengths: list[tuple[int, float]] = []

    def run(arm: Arm, together: list[links.Link], *, seed: int, duration_s: float, on_step: object) -> object:
        lengths.append((len(together), duration_s))
        assert len({link.name for link in together[: links.REPEATS]}) == 1
        return [links.LinkSummary(0.9, 1.1, 0.01, 0.8 if link.cubics else None) for link in together]

    monkeypatch.setattr(links, "run", run)
    assert ltp.main(["links"]) == 0
    assert lengths == [(160, 30.0), (8, 100.0)]
    text = capsys.readouterr().out
    assert text.count("0.900") == 21
    assert text.count("0.80") == 3


@pytest.mark.parametrize("module", [ltp, jury, owl, spine])
def test_weights_that_are_missing_are_said(module: ModuleType, tmp_path: Path, capsys: Captured) -> None:
    missing = str(tmp_path / "none.npz")
    option = ["links", "--weights"] if module is ltp else ["--spine"] if module is spine else ["--weights"]
    assert module.main([*option, missing]) == 1
    assert missing in capsys.readouterr().err


def test_ltp_s_command_needs_a_question() -> None:
    with pytest.raises(SystemExit):
        ltp.main([])
