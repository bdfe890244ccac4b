# SPDX-License-Identifier: Apache-2.0
"""Learned arms among those that the daemon chooses from: only when named, and then like any other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.records import flow, record

from ltp_switcher.daemon.choose.bandit.features import N_FEATURES
from ltp_switcher.daemon.choose.choice import of_policy
from ltp_switcher.daemon.datapath import ArmInfo, protocol
from ltp_switcher.daemon.datapath.arms import candidate_ids
from ltp_switcher.daemon.datapath.protocol import ArmId, ArmKind, ArmState
from ltp_switcher.daemon.service.assembly import make_chooser, make_learned, make_teams, pool_of
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.encoder import GRUEncoder
from ltp_switcher.errors import ConfigError

ARMS = [
    ArmInfo(
        int(arm), arm.name.lower(), ArmState.AVAILABLE, ArmKind.LEARNED if arm >= 12 else ArmKind.KERNEL, ""
    )
    for arm in ArmId
    if ArmId.NONE < arm < ArmId.OWL
] + [ArmInfo(15, "owl", ArmState.UNAVAILABLE, ArmKind.LEARNED, "no trained weights")]
NAMED = ("cubic", "ltp", "jury", "spine")


def test_the_pool_is_the_kernel_s_unless_learned_arms_are_named() -> None:
    assert candidate_ids(ARMS, ()) == tuple(range(1, 12))
    assert candidate_ids(ARMS, NAMED) == (1, 12, 13, 14)
    with pytest.raises(ConfigError, match="no trained weights"):
        candidate_ids(ARMS, ("cubic", "owl"))


def test_the_rule_has_a_learned_arm_in_its_usual_pool_and_does_without_where_it_is_not_there() -> None:
    assert Config().daemon.policy == "rule"
    assert pool_of(Config(), ARMS) == (2, 3, 12)
    gone = dataclasses.replace(ARMS[11], state=ArmState.UNAVAILABLE, reason="no trained weights")
    assert pool_of(Config(), [*ARMS[:11], gone]) == (2, 3)
    kernel_without = [arm for arm in ARMS if arm.id not in (2, 3, 12)]
    assert pool_of(Config(), kernel_without) == (1, *range(4, 12))
    named = dataclasses.replace(Config(), pool=dataclasses.replace(Config().pool, arms=NAMED))
    assert pool_of(named, ARMS) == (1, 12, 13, 14)


@pytest.mark.parametrize("policy", ["mutant", "random"])
def test_a_flow_is_given_learned_arms_of_the_pool(policy: str) -> None:
    config = dataclasses.replace(
        Config(),
        daemon=dataclasses.replace(Config().daemon, policy=policy),
        learning=dataclasses.replace(Config().learning, baseline="none", epsilon=1.0, epsilon_decay=1e9),
    )
    pool = candidate_ids(ARMS, NAMED)
    decider = make_chooser(config, ARMS, pool)
    teams = make_teams(config, ARMS, pool, decider)
    slots = np.array([0, 1])
    for unit in (decider, teams):
        unit.open(slots, ["192.0.2.0/24"] * 2)
    chosen: set[int] = set()
    now = [1, 1]
    for step in range(1, 400):
        fields = {
            "time_ns": step * 10_000_000, "samples": 5, "rtt_samples": 5, "delivered": 10, "srtt_us": 30_000,
            "rtt_us": 30_000, "min_rtt_us": 30_000, "mss": 1448, "snd_cwnd": 20, "in_flight": 10,
        }  # fmt: skip
        records = np.concatenate([record(i + 1, arm=now[i], want_arm=now[i], **fields) for i in slots])
        arms = teams.step(slots, records, of_policy(decider.step(slots, records).arms)).arms
        now = arms.tolist()
        chosen.update(now)
    assert chosen <= set(pool)
    assert chosen & {12, 13, 14}
    decider.set_pool([ArmId.JURY])
    assert decider.pool == (ArmId.JURY,)


def test_an_arm_that_the_encoder_was_not_trained_on_adds_nothing_to_its_context() -> None:
    artifact = GRUEncoder.from_file().artifact
    by_arm = np.abs(artifact.weights["gru_weight_ih"][:, N_FEATURES:]).max(axis=0)
    assert by_arm.shape == (protocol.ARMS_MAX,)
    unseen = artifact.prior_counts[1:] == 0
    assert (by_arm[unseen] < 1e-6).all()
    assert (by_arm[~unseen] > 1e-2).all()


def test_the_learned_arms_hear_of_siblings_from_the_chooser_and_of_prefixes_from_the_table() -> None:
    made = {}

    class Table(FlowTable):
        def prefixes(self, slots: np.ndarray) -> list[str]:
            made["asked"] = slots.tolist()
            return super().prefixes(slots)

    config, table = Config(), Table()
    chooser = make_chooser(config, ARMS, pool_of(config, ARMS))
    chooser.open(np.arange(3), ["192.0.2.0/24", "198.51.100.0/24", "192.0.2.0/24"])
    arms = make_learned(config, chooser, table)
    slots = np.array([table.add(flow(cookie), 1) for cookie in (7, 8, 9)])
    for step in range(1, 8):
        rows = [record(i + 1, arm=int(ArmId.LTP), snd_cwnd=20, in_flight=20) for i in range(3)]
        arms.step(slots, np.concatenate(rows), step * 10_000_000)
    assert made["asked"] == slots.tolist()
