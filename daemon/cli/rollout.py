# SPDX-License-Identifier: Apache-2.0
"""`rollout`: begin a rollout, show its state, or abort it. A rollout gives the daemon's choices to more and
more of the traffic.
"""

from __future__ import annotations

import argparse
import datetime

from ltp_switcher.daemon.cli.printing import Object, as_object, ask, ask_to_change, print_json, print_object
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.errors import ConfigError


def rollout(options: argparse.Namespace) -> int:
    """Carry out the action, and print the state of the rollout."""
    if options.units is not None and options.action != "start":
        raise ConfigError("--units", options.units, f"only with `rollout start`, not with {options.action}")
    if options.action == "start":
        params: Object = {} if options.units is None else {"units": options.units}
        told, status = ask_to_change(options, "rollout.start", **params)
    elif options.action == "abort":
        told, status = ask_to_change(options, "rollout.abort")
    else:
        told, status = as_object(ask(options, "rollout.get")), 0
    _ = print_json(told) if options.json else print_object(options, _lines(told))
    return status


def _lines(told: Object) -> Object:
    """The lines that a person reads: their texts, by the label of each line."""
    lines: Object = {"state": told["state"]}
    if told["reason"]:
        lines["reason"] = told["reason"]
    if told["rollout"] is None:
        return lines
    found = as_object(told["rollout"])
    running = told["state"] == "running"
    lines["traffic"] = f"{_percent(found['share'])} (stages of {_shares(found['stages'])})"
    lines["by lots of"] = f"{found['units']}; the rest runs {found['baseline_arm']}"
    lines["change of goodput"] = _change(found)
    if running:
        lines["in this stage for"] = (
            f"{_time(found['stage_s'])}, at least {_time(found['stage_min_s'])}, "
            f"at most {_time(found['stage_max_s'])}"
        )
        lines["judged"] = f"{found['rounds']} rounds of {_time(found['round_s'])}"
        lines["goes on once"] = f"a change of {_percent(found['must_exclude'])} or worse is excluded"
        lines["goes back once"] = "harm is proven"
        lines["a harm of 10 % is proven in"] = (
            "not known before a round of this stage is judged" if found["detect_s"] is None
            else f"about {_time(found['detect_s'])} of this stage"
        )  # fmt: skip
    lines["begun"] = f"{_when(found['began'])}, by {found['by']}"
    if found["ended"] is not None:
        lines["ended"] = _when(found["ended"])
    return lines


def _change(found: Object) -> str:
    if found["estimate"] is None:
        return "not known before the first round is judged"
    lower, upper = (found[name] for name in ("lower", "upper"))
    ends = [
        *(() if lower is None else (f"above {_percent(lower)}",)),
        *(() if upper is None else (f"below {_percent(upper)}",)),
    ]
    return f"{_percent(found['estimate'])} (proven: {' and '.join(ends) or 'nothing yet'})"


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _percent(value: Json) -> str:
    return f"{_number(value) * 100:.3g} %"


def _shares(value: Json) -> str:
    return ", ".join(_percent(share) for share in value) if isinstance(value, list) else "-"


def _time(value: Json) -> str:
    """A time in the unit that suits it."""
    seconds = _number(value)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s"


def _when(value: Json) -> str:
    return datetime.datetime.fromtimestamp(_number(value), datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
