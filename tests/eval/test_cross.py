# SPDX-License-Identifier: Apache-2.0
"""Traffic beside the flows: downloads with heavy-tailed sizes, and packets that give no way."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab import run_inputs, run_scenario
from ltp_switcher.eval.lab.run import boot_scenario
from ltp_switcher.eval.lab.script import cross_plans, script
from ltp_switcher.eval.run.cross import OnOff, ShortFlows
from ltp_switcher.eval.run.scenario import Scenario, parse_scenario
from ltp_switcher.eval.run.series import read_series

TEXT = """
name = "crossed"
duration_s = 12
[link]
rate_mbps = 12.0
rtt_ms = 40.0
buffer_pkts = 50
[cross.short]
per_s = 4.0
smallest_kb = 5
largest_kb = 400
[cross.on_off]
rate_mbps = 11.5
on_s = 3.0
off_s = 3.0
[[flow]]
scheme = "fixed:2"
"""


def scenario(**changes: object) -> Scenario:
    document = tomllib.loads(TEXT)
    for path, value in changes.items():
        table, _, key = path.partition("__")
        if key:
            document["cross"][table][key] = value
        elif value is None:
            del document["cross"][table]
        else:
            document[table] = value
    return parse_scenario(document)


@given(shape=st.floats(0.5, 5.0), seed=st.integers(0, 2**31 - 1))
def test_sizes_stay_between_their_bounds_and_times_in_order(shape: float, seed: int) -> None:
    drawn = list(ShortFlows(20.0, 3.0, 300.0, shape).draw(10.0, seed))
    times = [at_s for at_s, _ in drawn]
    assert times == sorted(times)
    assert all(0.0 < at_s < 10.0 for at_s in times)
    assert all(3_000 <= size <= 300_000 for _, size in drawn)


@pytest.mark.parametrize("shape", [0.7, 1.0, 1.2, 2.5])
def test_the_mean_size_and_the_number_are_those_of_the_distributions(shape: float) -> None:
    """Bounded Pareto from 3 to 300 KB: a L^a (L^(1-a) - H^(1-a)) / ((a - 1) (1 - (L/H)^a)); ln for a = 1."""
    low, high = 3.0, 300.0
    if shape == 1.0:
        expected = np.log(high / low) * low / (1.0 - low / high)
    else:
        top = shape * low**shape * (low ** (1 - shape) - high ** (1 - shape))
        expected = top / ((shape - 1) * (1 - (low / high) ** shape))
    flows = ShortFlows(200.0, low, high, shape)
    sizes = [size / 1e3 for _, size in flows.draw(200.0, 1)]
    assert len(sizes) == pytest.approx(40_000, rel=0.02)
    assert np.mean(sizes) == pytest.approx(expected, rel=0.05)


def test_times_of_sending_have_their_means_and_never_overlap() -> None:
    drawn = np.array(list(OnOff(1.0, 0.5, 1.5).draw(4000.0, 2)))
    assert (drawn[:, 0] < drawn[:, 1]).all()
    assert (drawn[1:, 0] > drawn[:-1, 1]).all()
    assert (drawn[:, 1] - drawn[:, 0]).mean() == pytest.approx(0.5, rel=0.1)
    assert (drawn[1:, 0] - drawn[:-1, 1]).mean() == pytest.approx(1.5, rel=0.1)


def test_only_the_seed_and_the_tables_decide_about_the_traffic() -> None:
    plans = cross_plans(scenario(), 3)
    assert set(plans) == {"lab/plan", "lab/pulses"}
    assert plans == cross_plans(scenario().with_scheme("bbr"), 3) != cross_plans(scenario(), 4)
    assert set(cross_plans(scenario(short=None), 3)) == {"lab/pulses"}
    assert "pulses" not in script(scenario(on_off=None), None)
    plain = scenario(cross={"on_off": {"rate_mbps": 1, "on_s": 1, "off_s": 1}})
    assert plain.canonical() != scenario().canonical()
    assert (
        run_inputs(scenario(), seed=1, kernel="6.1").fingerprint()
        != run_inputs(plain, seed=1, kernel="6.1").fingerprint()
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cross": {}}, "cross: None .* tables short and on_off, one at least"),
        ({"cross": {"shorts": {}}}, r"cross.shorts: .*\(did you mean short\?\)"),
        ({"short__per_s": 0}, "cross.short.per_s: 0 .* a number from 0.01 to 100"),
        ({"short__largest_kb": 5}, r"cross.short.largest_kb: 5.0 .* more than smallest_kb \(5\)"),
        ({"short__shape": 0.1}, "cross.short.shape: 0.1 .* a number from 0.5 to 5"),
        ({"on_off__on_s": None}, "cross.on_off.on_s: None .* a number from 0.01 to 600"),
        (
            {"requests": {"kind": "kept", "scheme": "cubic", "per_s": 1}},
            r"cross: .* no table beside \[requests\]",
        ),
    ],
)
def test_a_bad_value_is_explained(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scenario(**changes)


@pytest.mark.lab
def test_traffic_that_gives_no_way_fills_the_queue_while_it_sends() -> None:
    """While 13.5 Mbit/s come to a link of 12, 50 packets of 1 ms wait; else an RTT has the path's 40 ms."""
    crossed = scenario(short=None)
    times_s = [tuple(map(float, line.split())) for line in cross_plans(crossed, 4)["lab/pulses"].splitlines()]
    (series,) = read_series(run_scenario(crossed, seed=4).files["timeseries.csv"].decode())
    t_s = series.t_s
    busy = np.zeros(t_s.size, np.bool_)
    calm = t_s > 0.5
    for begin_us, end_us in times_s:
        # 1.5 Mbit/s too many fill the queue in 0.4 s; the smoothed RTT needs half a second more.
        busy |= (t_s > begin_us / 1e6 + 1.0) & (t_s + 0.1 < end_us / 1e6)
        calm &= (t_s + 0.1 < begin_us / 1e6) | (t_s > end_us / 1e6 + 1.0)
    assert busy.sum() >= 5
    assert calm.sum() >= 10
    assert np.nanmean(series.rtt_ms[busy]) == pytest.approx(40.0 + 50.0, abs=6.0)
    assert np.nanmean(series.rtt_ms[calm]) == pytest.approx(41.0, abs=2.0)
    assert series.lost_pkts[calm].sum() == 0
    assert series.lost_pkts.sum() > 0


@pytest.mark.lab
def test_the_downloads_beside_a_flow_are_those_that_were_drawn() -> None:
    crossed = scenario(on_off=None)
    result = boot_scenario(crossed, seed=3, kernel="6.1", daemon=None, collect=("/run/lab/cross.csv",))
    rows = [
        list(map(int, line.split(",")))
        for line in result.files["/run/lab/cross.csv"].decode().splitlines()[1:]
    ]
    drawn = [list(map(int, line.split())) for line in cross_plans(crossed, 3)["lab/plan"].splitlines()]
    assert [row[:2] for row in rows] == drawn
    done = [row for row in rows if row[3]]
    assert len(done) >= len(rows) - 3
    # A handshake and a request take two round trips.
    assert min(row[3] - row[0] for row in done) > 80_000
