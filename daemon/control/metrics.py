# SPDX-License-Identifier: Apache-2.0
"""The daemon's metrics: the one list of all that it exports."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import ltp_switcher
from ltp_switcher.daemon.control.openmetrics import Family, Sample, counter, gauge, labelled
from ltp_switcher.daemon.settings.schema import MODES
from ltp_switcher.daemon.step.engine import Engine

PREFIX = "ltp_switcher_"


def families(engine: Engine, names: Mapping[int, str]) -> list[Family]:
    """Everything the daemon measures, summed over flows: labels are arms, never flows."""
    count, table, teams = engine.statistics, engine.table, engine.teams
    arm_time_s = table.total_arm_time_s()
    slots = np.array(table.slots(), np.int64)
    flows_by_arm = np.bincount(table.record["arm"][slots], minlength=256)
    goodput_Bps = np.bincount(table.record["arm"][slots], weights=table.goodput_Bps[slots], minlength=256)
    rewards = table.reward[slots]
    known = rewards[~np.isnan(rewards)]
    steps = Family(
        PREFIX + "step_duration_seconds",
        "summary",
        "Time that a step takes.",
        "seconds",
        [
            Sample(count.step_quantile_s(0.5), {"quantile": "0.5"}),
            Sample(count.step_quantile_s(0.99), {"quantile": "0.99"}),
            Sample(count.step_s_sum, {}, "_sum"),
            Sample(count.steps, {}, "_count"),
        ],
    )
    return [
        Family(
            PREFIX + "build", "info", "Version of the daemon.", "",
            [Sample(1, {"version": ltp_switcher.__version__}, "_info")],
        ),
        labelled(
            PREFIX + "mode", "gauge", "1 for the mode that the daemon is in.", "mode",
            {mode: float(mode == engine.mode) for mode in MODES},
        ),
        gauge(PREFIX + "flows", "Flows under mutant.", len(table)),
        labelled(
            PREFIX + "arm_flows", "gauge", "Flows by the arm they run.", "arm",
            {name: float(flows_by_arm[arm]) for arm, name in names.items()},
        ),
        labelled(
            PREFIX + "arm_goodput_bytes_per_second", "gauge", "Bytes newly acknowledged per second, by arm.",
            "arm", {name: float(goodput_Bps[arm]) for arm, name in names.items()},
        ),
        labelled(
            PREFIX + "arm_flow_time_seconds", "counter", "Time of flows under each arm.", "arm",
            {name: float(arm_time_s[arm]) for arm, name in names.items()}, "seconds",
        ),
        Family(
            PREFIX + "reward_mean", "gauge", "Mean of the flows' latest normalised rewards, if any has one.",
            "", [Sample(float(known.mean()))] if known.size else [],
        ),
        counter(PREFIX + "flows_opened", "Flows that came under mutant.", count.flows_opened),
        counter(PREFIX + "flows_closed", "Flows that ended.", count.flows_closed),
        steps,
        counter(PREFIX + "steps_missed", "Steps left out because another still ran.", count.missed_steps),
        counter(PREFIX + "decisions", "Flows times steps decided.", count.decisions),
        counter(PREFIX + "decisions_changing", "Decisions for another arm than the flow's.", count.changes),
        counter(PREFIX + "decisions_exploring", "Decisions made to learn.", count.explored),
        labelled(
            PREFIX + "commands", "counter", "Commands sent to the kernel, by result.", "result",
            {
                "applied": count.commands_applied,
                "unknown": count.commands_unknown,
                "refused": count.commands_refused,
            },
        ),
        labelled(
            PREFIX + "controls", "counter",
            "Controls sent to learned arms, by result; clamped ones are applied too.", "result",
            {
                "applied": count.controls_applied,
                "clamped": count.controls_clamped,
                "unknown": count.controls_unknown,
                "refused": count.controls_refused,
            },
        ),
        *_learned(engine, names),
        counter(PREFIX + "fallbacks", "Flows that the kernel sent to the fallback arm.", count.fallbacks),
        counter(PREFIX + "events_lost", "Times that kernel events were dropped.", count.events_lost),
        labelled(
            PREFIX + "state_saves", "counter", "Saves of the learned state, by result.", "result",
            {"saved": count.saves, "failed": count.save_failures},
        ),
        gauge(PREFIX + "team_searches", "Team selections under way.", len(teams.searches)),
        gauge(PREFIX + "teams", "Destination prefixes with a team.", len(teams.known)),
    ]  # fmt: skip


def _learned(engine: Engine, names: Mapping[int, str]) -> list[Family]:
    """The decisions of the learned arms in use, and the time that they take."""
    batches = {names[arm]: batches for arm, batches in engine.learned.batches.items()}
    took = [
        sample
        for name, batch in batches.items()
        for sample in (
            Sample(batch.seconds, {"arm": name}, "_sum"),
            Sample(batch.count, {"arm": name}, "_count"),
        )
    ]
    return [
        Family(
            PREFIX + "learned_batch_duration_seconds", "summary",
            "Time to decide for all flows of a learned arm's interval.", "seconds", took,
        ),
        labelled(
            PREFIX + "learned_decisions", "counter", "Flows times intervals decided, by learned arm.", "arm",
            {name: float(batch.flows) for name, batch in batches.items()},
        ),
    ]  # fmt: skip
