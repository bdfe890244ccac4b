# SPDX-License-Identifier: Apache-2.0
"""Explains why a flow runs its arm, and shows its last minutes. The answers have sentences for people and
fields for programs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.daemon.choose.choice import Cause
from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.history import POINTS
from ltp_switcher.daemon.step.journal import FALLBACKS, Switch
from ltp_switcher.measures import BYTES_TO_MBIT

Names = Mapping[int, str]


def why_json(engine: Engine, slot: int, names: Names) -> dict[str, Json]:
    """The reason why an open flow runs its arm: a sentence, the expected rewards of the arms, the numbers of
    the path, and the flow's last switches.
    """
    switches = engine.journal.of(slot)
    estimates: list[Json] = [
        {
            "arm": names.get(estimate.arm, str(estimate.arm)),
            "mean": estimate.mean,
            "lower": estimate.lower,
            "upper": estimate.upper,
        }
        for estimate in engine.chooser.estimates(slot)
    ]
    return {
        "sentence": "".join(
            [
                _now(engine, slot, names, switches),
                _lot(engine, slot, names),
                _news(engine, slot),
                _start(engine, slot),
            ]
        ),
        "advised": engine.journal.advised(slot),
        "estimates": estimates,
        "path": _path(engine, slot),
        "switches": [_switch_json(switch) for switch in switches],
    }


def past_json(engine: Engine, slot: int, names: Names, points: int = POINTS) -> dict[str, Json]:
    """The latest points of an open flow, one for each second, oldest first. Each quantity is a list of its
    own.
    """
    past = engine.history.of(slot, points)
    if past is None:
        return {"kept": False, "time": [], "goodput_mbps": [], "srtt_ms": [], "loss": [], "arm": []}
    return {
        "kept": True,
        "time": _unix_s(past.time_ns),
        "goodput_mbps": [round(rate * BYTES_TO_MBIT, 4) for rate in past.goodput_Bps.tolist()],
        "srtt_ms": [round(rtt / 1000, 3) if rtt else None for rtt in past.srtt_us.tolist()],
        "loss": [round(loss, 6) for loss in past.loss.tolist()],
        "arm": [names.get(arm) for arm in past.arm.tolist()],
    }


def totals_json(engine: Engine, names: Names) -> dict[str, Json]:
    """The latest points of all flows together, one for each second, by the arm that the flows ran. Arms that
    no flow ran are left out.
    """
    totals = engine.history.totals()
    used = [arm for arm in names if totals.flows[:, arm].any()]
    return {
        "time": _unix_s(totals.time_ns),
        "goodput_mbps": {
            names[arm]: [round(rate * BYTES_TO_MBIT, 4) for rate in totals.goodput_Bps[:, arm].tolist()]
            for arm in used
        },
        "flows": {names[arm]: totals.flows[:, arm].tolist() for arm in used},
    }


def _now(engine: Engine, slot: int, names: Names, switches: list[Switch]) -> str:
    record = engine.table.record[slot]
    arm = names.get(int(record["want_arm"]), "no arm")
    flags = protocol.FlowFlags(int(record["flags"]))
    journal = engine.journal
    cause, reason, advised = journal.cause(slot), journal.reason(slot), journal.advised(slot)
    if flags & protocol.FlowFlags.PINNED:
        return f"Somebody pinned the flow to {arm}; it stays there until it is unpinned."
    if cause == Cause.EXCLUDED:
        return f"It keeps {arm}: {reason}."
    if flags & protocol.FlowFlags.FALLEN_BACK:
        last = switches[0].reason if switches and switches[0].cause == Cause.FALLBACK else FALLBACKS[_NONE]
        return f"It runs {arm}, the fallback arm, until the daemon's next command: {last}."
    if engine.mode == "off":
        return f"It keeps {arm}: in mode off the daemon decides nothing."
    if cause == Cause.NONE:
        return f"It keeps {arm}: {reason}."
    if engine.mode == "active":
        return f"It runs {arm}: {reason}."
    who = "The policy" if cause == Cause.POLICY else "The daemon"
    if advised is not None:
        return f"It keeps {arm}, because mode advise changes nothing. {who} would run {advised}: {reason}."
    return f"It runs {arm}, and so would {who[0].lower()}{who[1:]}: {reason}."


def _lot(engine: Engine, slot: int, names: Names) -> str:
    """A sentence about the arm that the flow's visit drew by lot; empty if there was no lot."""
    learned = engine.visits
    lot = None if learned is None else learned.lot(slot)
    if learned is None or lot is None:
        return ""
    arm = names.get(lot.arm, str(lot.arm)) if lot.arm else "the decision's own choice"
    left = (
        "; the flow left it, because it earned less than a quarter of the expected reward" if lot.left else ""
    )
    place = learned.place_of(engine.table, slot)
    return f" Visit {lot.visit} of {place} drew {arm} (chance {lot.chance:.2g}){left}."


def _news(engine: Engine, slot: int) -> str:
    """Sentences about changes and surprises on the flow's prefix; empty where there were none."""
    if engine.visits is None:
        return ""
    prefix = engine.visits.place_of(engine.table, slot)
    news = engine.visits.news_of(prefix)
    told = ""
    if news.path_changes:
        told += f" The path to {prefix} has changed {_times(news.path_changes)} since the daemon's start."
    if news.surprises:
        told += (
            f" An arm of the decision starved on {prefix}, which opened trials there anew, "
            f"{_times(news.surprises)} since the daemon's start."
        )
    return told


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _path(engine: Engine, slot: int) -> list[Json]:
    """The numbers of the flow's path; empty where the policy has no model of it."""
    told = engine.chooser.path(np.array([slot]))
    if told is None:
        return []
    return [
        {"name": name, "unit": unit, **{field: _told(of[0, number], scale) for field, of, scale in (
            ("value", told.value, scale), ("error", told.error, scale), ("age_s", told.age_s, 1.0),
        )}}
        for number, (name, unit, scale) in _NUMBERS.items()
    ]  # fmt: skip


def _told(value: float, scale: float) -> float | None:
    """The value in another unit; None where it was not observed."""
    return None if math.isnan(value) else float(f"{value * scale:.4g}")


def _start(engine: Engine, slot: int) -> str:
    """A sentence about Careful Resume at the flow's start; empty where it did nothing."""
    flags = protocol.FlowFlags(int(engine.table.record["flags"][slot]))
    return next((text for flag, text in _STARTS.items() if flags & flag), "")


def _switch_json(switch: Switch) -> dict[str, Json]:
    age_s = (time.monotonic_ns() - switch.time_ns) * 1e-9
    before, after = switch.before or "no arm", switch.after or "no arm"
    did = (
        f"Switched from {before} to {after}" if switch.carried_out else f"Advised {after} instead of {before}"
    )
    return {
        "time": round(time.time() - age_s, 3),
        "age_s": round(age_s, 3),
        "before": switch.before,
        "after": switch.after,
        "cause": switch.cause.name.lower(),
        "carried_out": switch.carried_out,
        "sentence": f"{did}: {switch.reason}.",
    }


def _unix_s(time_ns: Ints) -> list[Json]:
    """Times of CLOCK_MONOTONIC in Unix time."""
    ahead_s = time.time() - time.monotonic()
    return [round(at * 1e-9 + ahead_s, 1) for at in time_ns.tolist()]


_NUMBERS: Final[Mapping[Number, tuple[str, str, float]]] = {
    Number.RATE: ("rate", "Mbit/s", BYTES_TO_MBIT),
    Number.VARIATION: ("rate_variation", "share", 1.0),
    Number.PROPAGATION: ("propagation_rtt", "ms", 1e-3),
    Number.ACK_GAP: ("ack_gap", "ms", 1e-3),
    Number.BUFFER: ("buffer", "packets", 1.0),
    Number.QUIET_LOSS: ("loss_without_queue", "share", 1.0),
    Number.OTHERS_QUEUE: ("queue_of_others", "ms", 1e-3),
    Number.APPLICATION: ("application_limited", "share", 1.0),
}
"""Name and unit in which people read each number of a path, and the factor from the internal unit."""
_NONE = protocol.FallbackReason.NONE
_BEGAN = " It began with a part of the window that an earlier flow to this host had"
_STARTS = {
    protocol.FlowFlags.JUMPING: f"{_BEGAN}; the path has not shown yet that it carries it.",
    protocol.FlowFlags.RESUMED: f"{_BEGAN}, and the path carried it.",
    protocol.FlowFlags.RETREATED: f"{_BEGAN}, and took it back after a loss or a congestion mark.",
}
