# SPDX-License-Identifier: Apache-2.0
"""The daemon's metrics, in one list."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

import ltp_switcher
from ltp_switcher.daemon.control.families import Family, Sample, counter, gauge, histogram, labelled
from ltp_switcher.daemon.settings.schema import MODES
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.histogram import Distributions

PREFIX = "ltp_switcher_"
_PROC: Final = Path("/proc/self")
_STARTED_S: Final = time.time()


def families(engine: Engine, names: Mapping[int, str], faults: int = 0) -> list[Family]:
    """All metrics of the daemon, summed over flows. Metrics are labelled by arm, never by flow."""
    count, table, teams = engine.statistics, engine.table, engine.teams
    written, dropped = engine.logged_rows
    arm_time_s = table.total_arm_time_s()
    slots = np.array(table.slots(), np.int64)
    flows_by_arm = np.bincount(table.record["arm"][slots], minlength=256)
    goodput_Bps = np.bincount(table.record["arm"][slots], weights=table.goodput_Bps[slots], minlength=256)
    rewards = table.reward[slots]
    known = rewards[~np.isnan(rewards)]
    step_s = count.step_s
    return [
        Family(
            PREFIX + "build", "info", "Version of the daemon.", "",
            [Sample(1, {"version": ltp_switcher.__version__}, "_info")],
        ),
        labelled(
            PREFIX + "mode", "gauge", "1 for the mode that the daemon is in.", "mode",
            {mode: float(mode == engine.mode) for mode in MODES},
        ),
        gauge(PREFIX + "faults", "Faults that the status names.", faults),
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
        gauge(PREFIX + "flows_max", "Flows that the module takes on at a time.", count.flows_max),
        counter(
            PREFIX + "flows_refused", "Connections that could not be steered for want of room.",
            count.flows_refused,
        ),
        counter(
            PREFIX + "resume_jumps", "Flows that began with a part of a saved window (Careful Resume).",
            count.resume.jumps,
        ),
        labelled(
            PREFIX + "resume_results", "counter", "Of these, flows by what came of it.", "result",
            {"validated": float(count.resume.validated), "retreated": float(count.resume.retreats)},
        ),
        labelled(
            PREFIX + "resume_cut_short", "counter", "Of these, flows that could not send it all, by cause.",
            "cause",
            {
                "receiver": float(count.resume.cut_by_receiver),
                "send-buffer": float(count.resume.cut_by_buffer),
            },
        ),
        counter(PREFIX + "flows_opened", "Flows that came under mutant.", count.flows_opened),
        counter(PREFIX + "flows_closed", "Flows that ended.", count.flows_closed),
        histogram(
            PREFIX + "step_duration_seconds", "Time that a step takes.", "seconds", step_s.bounds,
            [({}, step_s.counts, step_s.sum)],
        ),
        *_distributions(engine.distributions, names),
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
        labelled(
            PREFIX + "log_rows", "counter",
            "Rows for the decision log, by result; dropped: its disk was full or slow.", "result",
            {"written": written, "dropped": dropped},
        ),
        labelled(
            PREFIX + "outcomes", "counter",
            "Outcomes of flows, by what became of them; dropped: the module had no room; unlogged: the log's "
            "disk was full or slow.", "result",
            {
                "told": engine.outcomes.told if engine.outcomes else 0,
                "dropped": engine.outcomes.dropped if engine.outcomes else 0,
                "unlogged": engine.outcomes.unlogged if engine.outcomes else 0,
            },
        ),
        gauge(PREFIX + "team_searches", "Team selections under way.", len(teams.searches)),
        gauge(PREFIX + "teams", "Destination prefixes with a team.", len(teams.found)),
        *_process(),
    ]  # fmt: skip


def _distributions(seen: Distributions, names: Mapping[int, str]) -> list[Family]:
    """Histograms over flows. Once a second each flow that moves data is counted."""
    made = []
    for name, text, unit, by_arm in (
        (
            "flow_rtt_seconds", "Smoothed RTT of the flows that move data, once a second.",
            "seconds", seen.rtt_s,
        ),
        (
            "flow_goodput_bytes_per_second", "Goodput of the flows that move data, once a second.",
            "bytes_per_second", seen.goodput_Bps,
        ),
    ):  # fmt: skip
        rows = [
            ({"arm": names[arm]}, by_arm.counts[arm].tolist(), float(by_arm.sums[arm]))
            for arm in names
            if by_arm.counts[arm].any()
        ]
        made.append(histogram(PREFIX + name, text, unit, by_arm.bounds, rows))
    return made


def _process() -> list[Family]:
    """The daemon's use of CPU, memory and files. The API reports its own."""
    used, name = usage(), PREFIX + "daemon_"
    families = [
        counter(name + "cpu_seconds", "CPU time of the daemon.", used.pop("cpu_seconds"), "seconds"),
    ]
    texts = {
        "start_time_seconds": ("Unix time of the daemon's start.", "seconds"),
        "resident_memory_bytes": ("Resident memory of the daemon.", "bytes"),
        "open_fds": ("Open file descriptors of the daemon.", ""),
    }
    families += [Family(name + key, "gauge", *texts[key], [Sample(value)]) for key, value in used.items()]
    return families


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


def usage() -> dict[str, float]:
    """CPU time in s, memory in bytes, open files, and Unix time of the start. Values that cannot be read are
    missing.
    """
    times = os.times()
    found = {"cpu_seconds": times.user + times.system, "start_time_seconds": _STARTED_S}
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int((_PROC / "statm").read_text().split()[1])
        found["resident_memory_bytes"] = float(pages * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError):
        found["open_fds"] = float(len(os.listdir(_PROC / "fd")))  # noqa: PTH208 # the descriptor of the list
    return found
