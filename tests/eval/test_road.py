# SPDX-License-Identifier: Apache-2.0
"""The tables of a link with habits of real paths, and several paths."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.documents import with_value

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.script import flow_table
from ltp_switcher.eval.run.road import BurstLoss, Walk
from ltp_switcher.eval.run.scenario import Scenario, parse_scenario

LINK = """
rate_mbps = 20.0
rtt_ms = 40.0
[link.walk]
every_s = 0.5
step_ms = 5.0
range_ms = 12.0
[[link.handover]]
at_s = 4.25
rate_mbps = 10.0
rtt_ms = 60.0
silence_ms = 90.0
[link.burst_loss]
to_bad = 0.01
to_good = 0.25
loss_bad = 0.5
[link.back]
rate_mbps = 0.2
thin = true
"""
TEXT = f"""
name = "leo"
duration_s = 10
[link]
{LINK}
[[flow]]
scheme = "cubic"
"""
PATHS = f"""
name = "paths"
duration_s = 10
[[path]]
name = "first"
rate_mbps = 50.0
rtt_ms = 2.0
[[path]]
name = "second"
{LINK.replace("link.", "path.")}
[[flow]]
scheme = "cubic"
[[flow]]
scheme = "bbr"
path = "second"
[[flow]]
scheme = "bbr"
path = "second"
"""


def parse_with(text: str, path: str, value: object) -> Scenario:
    """The document with the value at a dotted path set, or (None) removed."""
    return parse_scenario(with_value(tomllib.loads(text), path, value))


def test_a_link_in_steps_has_the_handover_its_silence_and_the_walk() -> None:
    scenario = parse_scenario(tomllib.loads(TEXT))
    states = list(scenario.link.in_steps(10.0).states())
    at_s = [state.at_s for state in states]
    assert at_s == sorted({*np.arange(0, 10, 0.5).tolist(), 4.25, 4.34})
    rates = dict(zip(at_s, [state.rate_mbps for state in states], strict=True))
    assert (rates[4.0], rates[4.25], rates[4.34], rates[9.5]) == (20.0, 1e-6, 10.0, 10.0)
    assert states[0].rtt_ms == 40.0
    for state in states:
        base_ms = 40.0 if state.at_s < 4.25 else 60.0
        assert base_ms <= state.rtt_ms <= base_ms + 12.0
    assert len({state.rtt_ms for state in states}) > 15
    mean_ms = sum(s.rtt_ms * (e - s.at_s) for s, e in zip(states, [*at_s[1:], 10.0], strict=True)) / 10.0
    assert scenario.base_rtt_ms(scenario.flows[0]) == pytest.approx(mean_ms)
    # Those who mark changes of the path see the handover alone.
    assert [state.at_s for state in scenario.link.states()] == [0.0, 4.25]


@given(
    step_ms=st.floats(0.001, 1000.0),
    range_ms=st.floats(0.01, 1000.0),
    count=st.integers(1, 200),
    seed=st.integers(0, 2**31 - 1),
)
def test_a_walk_stays_in_its_range_and_moves_by_a_step_at_most(
    step_ms: float, range_ms: float, count: int, seed: int
) -> None:
    above_ms = Walk(1.0, step_ms, range_ms, seed).above_ms(count)
    assert above_ms.shape == (count,)
    assert above_ms[0] == 0.0
    assert above_ms.min() >= 0.0
    assert above_ms.max() <= range_ms + 0.001
    assert np.abs(np.diff(above_ms)).max(initial=0.0) <= step_ms + 0.0011
    assert above_ms.tolist() == Walk(1.0, step_ms, range_ms, seed).above_ms(count).tolist()


def test_the_mean_of_bursts() -> None:
    """In the long run the path is bad for to_bad / (to_bad + to_good) of its packets."""
    assert BurstLoss(0.01, 0.04, 0.5, 0.001).mean == pytest.approx(0.2 * 0.5 + 0.8 * 0.001)


def test_flows_go_to_the_network_of_their_path() -> None:
    scenario = parse_scenario(tomllib.loads(PATHS))
    assert [flow.path for flow in scenario.flows] == [0, 1, 1]
    servers = [int(line.split()[-1]) for line in flow_table(scenario, 1).decode().splitlines()]
    # Server s is 10.2.0.1 + s, and so the path is the third number of the address.
    assert [(server + 1) // 256 for server in servers] == [0, 1, 1]
    assert len(set(servers)) == 3
    assert scenario.base_rtt_ms(scenario.flows[0]) == 2.0
    assert scenario.base_rtt_ms(scenario.flows[1]) > 40.0


def test_every_path_and_key_is_in_the_text_that_is_hashed() -> None:
    plain = json.loads(
        parse_scenario(tomllib.loads(TEXT.replace(LINK, "rate_mbps = 20.0\nrtt_ms = 40.0"))).canonical()
    )
    assert "road" not in plain["link"]
    assert plain.keys() == {"name", "duration_s", "link", "flows", "settings"}
    assert "path" not in plain["flows"][0]
    texts = {
        parse_with(TEXT, f"link.{key}", value).canonical()
        for key, value in (
            ("walk.seed", 2), ("walk.range_ms", 13), ("burst_loss.to_bad", 0.02), ("back.thin", False),
            ("back.loss", 0.1), ("handover.0.silence_ms", 80), ("rtt_ms", 41),
        )
    }  # fmt: skip
    assert len(texts) == 7
    assert (
        parse_with(PATHS, "path.1.rtt_ms", 41).canonical()
        != parse_with(PATHS, "path.1.rtt_ms", 42).canonical()
    )


@pytest.mark.parametrize(
    ("text", "path", "value", "field", "allowed"),
    [
        (TEXT, "link.walk.every_s", 0, "link.walk.every_s", "0.01 to 60"),
        (TEXT, "link.walk.step_ms", None, "link.walk.step_ms", "required"),
        (TEXT, "link.walk.stepms", 3, "link.walk.stepms", "did you mean step_ms"),
        (TEXT, "link.walk.seed", 1.5, "link.walk.seed", "a whole number"),
        (TEXT, "link.handover.0.at_s", 0, "link.handover[0].at_s", "more than 0 s"),
        (TEXT, "link.handover.0.at_s", 9.95, "link.handover[0].at_s", "over before 10 s"),
        (TEXT, "link.handover.0.silence_ms", -1, "link.handover[0].silence_ms", "0 to 10000"),
        (TEXT, "link.handover", [{"at_s": 3}], "link.handover[0].at_s", "rate_mbps, rtt_ms or silence_ms"),
        (
            TEXT, "link.handover", [{"at_s": 3, "silence_ms": 500}, {"at_s": 3.5, "rtt_ms": 9}],
            "link.handover[1].at_s", "later than 3.5 s",
        ),
        (TEXT, "link.step", [{"at_s": 4.25, "loss": 0.1}], "link.handover[0].at_s", "no step"),
        (TEXT, "link.burst_loss.to_good", 0, "link.burst_loss.to_good", "1e-06 to 1"),
        (TEXT, "link.burst_loss.loss_bad", 1.1, "link.burst_loss.loss_bad", "0 to 1"),
        (
            TEXT, "link.burst_loss", {"to_bad": 1.0, "to_good": 0.001, "loss_bad": 1.0},
            "link.burst_loss.loss_bad", "a mean loss of 0.99",
        ),
        (TEXT, "link.back.thin", "yes", "link.back.thin", "true or false"),
        (TEXT, "link.back.rate_mbps", None, "link.back.rate_mbps", "required"),
        (TEXT, "link.jitter_ms", 5, "link.back", "no table beside link.jitter_ms"),
        (TEXT, "link.queue", "fq_codel", "link.queue", "drop-tail beside walk, handover, burst_loss, back"),
        (TEXT, "flow.0.path", "first", "flow[0].path", "there is none"),
        (PATHS, "flow.1.path", "third", "flow[1].path", "first, second"),
        (PATHS, "link", {"rate_mbps": 1, "rtt_ms": 9}, "link", "exactly one of link and path"),
        (PATHS, "path.0.name", "second", "path[1].name", "no other path"),
        (PATHS, "path.0.rtt_ms", 1.5, "path[0].rtt_ms", "at least 2 ms"),
        (PATHS, "path.0.rate_mbps", 181, "path.rate_mbps", "200 Mbit/s"),
        (PATHS, "path.0.queue", "pie", "path[0].queue", "drop-tail"),
        (PATHS, "path", [], "path", "1 to 16"),
        (PATHS, "requests", {"kind": "pages", "scheme": "cubic", "per_s": 1}, "path", "beside [requests]"),
    ],
)  # fmt: skip
def test_a_bad_value_is_explained(text: str, path: str, value: object, field: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_with(text, path, value)
    assert field in str(caught.value)
    assert allowed in str(caught.value)


def test_a_faster_scenario_has_all_its_changes_sooner() -> None:
    scenario = parse_scenario(tomllib.loads(PATHS)).faster(2.0)
    road = scenario.links[1].road
    assert (road.walk and road.walk.every_s, road.handovers[0].at_s, road.handovers[0].silence_ms) == (
        0.25, 2.125, 45.0,
    )  # fmt: skip
