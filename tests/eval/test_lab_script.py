# SPDX-License-Identifier: Apache-2.0
"""The guest's script for the schemes of a scenario."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.script import (
    GuestDaemon,
    asks_bpftune,
    asks_network,
    daemon_config,
    daemon_of,
    flow_table,
    needs,
    script,
)
from ltp_switcher.eval.run.daemon_settings import parse_assignments
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario


def scenario(*schemes: str) -> Scenario:
    flows = tuple(Flow(scheme, 0.0, 5.0) for scheme in schemes)
    return Scenario("test", 5.0, Link(rtt_ms=40.0, rate_mbps=12.0), flows)


def protocols(of: Scenario) -> list[list[str]]:
    return [line.split()[:2] for line in flow_table(of, 1).decode().splitlines()]


def test_learned_arms_share_a_link_with_each_other_and_with_protocols() -> None:
    mixed = scenario("jury", "cubic", "ltp", "jury", "mutant:bbr")
    assert protocols(mixed) == [
        ["mutant", "jury"],
        ["cubic", "-"],
        ["mutant", "ltp"],
        ["mutant", "jury"],
        ["mutant", "bbr"],
    ]
    daemon = daemon_of(mixed)
    assert daemon is not None
    config = tomllib.loads(daemon_config(daemon, mixed, 7).decode())
    # The mode is named: the service's default only advises.
    assert config == {
        "daemon": {"mode": "active", "policy": "keep", "seed": 7},
        "pool": {"arms": ["jury", "ltp"]},
    }
    assert "insmod /lib/mutant/tcp_mutant.ko" in script(mixed, daemon).splitlines()


def test_a_scenario_s_settings_go_before_the_scheme_s() -> None:
    set_up = replace(
        scenario("ltp"), settings=parse_assignments(["pool.arms=ltp,owl", "kernel.watchdog_ms=500"])
    )
    daemon = daemon_of(set_up)
    assert daemon is not None
    config = tomllib.loads(daemon_config(daemon, set_up, 1).decode())
    assert config["pool"] == {"arms": ["ltp", "owl"]}
    assert config["kernel"] == {"watchdog_ms": 500}


@pytest.mark.parametrize(
    ("schemes", "policy"),
    [
        (["switcher", "cubic", "switcher"], "rule"),
        (["rule"], "rule"),
        (["bandit"], "mutant"),
        (["random"], "random"),
        (["cubic", "mutant:bbr", "fixed:3"], None),
    ],
)
def test_the_daemon_runs_the_policy_of_the_scheme(schemes: list[str], policy: str | None) -> None:
    daemon = daemon_of(scenario(*schemes))
    assert (daemon.policy if daemon else None) == policy


def test_a_variant_brings_its_settings_and_the_agent_that_it_asks() -> None:
    plain, asking = scenario("owl", "spine-cubic"), scenario("owl-network")
    for of, learned in (
        (plain, {"variants": ["spine-cubic"]}),
        (asking, {"owl_network_urls": ["http://127.0.0.1:9481"]}),
    ):
        daemon = daemon_of(of)
        assert daemon is not None
        assert tomllib.loads(daemon_config(daemon, of, 1).decode())["learned"] == learned
        assert ("network_agent" in script(of, daemon)) == asks_network(of) == (of is asking)


@pytest.mark.parametrize(
    "schemes",
    [["switcher", "random"], ["switcher", "ltp"], ["random", "mutant:bbr"], ["spine", "spine-cubic"]],
)
def test_one_daemon_cannot_be_two(schemes: list[str]) -> None:
    with pytest.raises(ConfigError, match="in a scenario"):
        daemon_of(scenario(*schemes))


def test_a_constant_rate_counts_packets_and_paces_payload() -> None:
    mixed = scenario("cubic", "fixed:12", "fixed:0.3")
    assert needs(mixed, "fixed")
    assert not needs(scenario("cubic"), "fixed")
    assert protocols(mixed)[1] == ["fixed", "-"]
    # 12 Mbit/s are 1000 packets of 1500 bytes, each with 1448 of payload.
    assert "insmod /lab/fixed.ko rates=0,0,1448000,36200" in script(mixed, None).splitlines()


def test_bpftune_runs_beside_flows_that_name_no_protocol_and_go_to_one_address() -> None:
    """It learns by address. Flows of the daemon each have an address of their own, in one prefix."""
    tuned = scenario("bpftune", "bpftune", "bpftune")
    assert asks_bpftune(tuned)
    assert daemon_of(tuned) is None
    rows = [line.split() for line in flow_table(tuned, 1).decode().splitlines()]
    assert [(row[0], row[4]) for row in rows] == [("cubic", "0")] * 3
    lines = script(tuned, None).splitlines()
    assert lines.index("start_bpftune") < next(i for i, line in enumerate(lines) if "traffic" in line)
    assert lines[-1] == "stop_bpftune"
    others = scenario("bbr", "cubic", "rule")
    assert [line.split()[4] for line in flow_table(others, 1).decode().splitlines()] == ["0", "1", "2"]
    assert not asks_bpftune(others)
    assert "bpftune" not in script(others, daemon_of(others))


def test_bpftune_shares_its_machine_with_no_other_scheme() -> None:
    with pytest.raises(ConfigError, match=r"flow\.scheme.*\['bpftune', 'cubic'\].*every connection"):
        asks_bpftune(scenario("bpftune", "cubic"))


def test_the_traffic_may_end_at_a_line_of_the_daemons_log() -> None:
    one = scenario("bandit")
    plain = script(one, GuestDaemon("mutant", beside=("ask &",)))
    assert "ask &\n/lab/bin/traffic" in plain
    early = script(one, GuestDaemon("mutant", until="team for"))
    assert "until grep -q 'team for' /run/lab/daemon.log || test -e /run/lab/ended" in early
