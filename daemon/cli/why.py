# SPDX-License-Identifier: Apache-2.0
"""`why`: the reason for a flow's arm, in sentences."""

from __future__ import annotations

import argparse
import json
from typing import cast

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.control.client import ControlClient, Json

Object = dict[str, Json]


def why(options: argparse.Namespace) -> int:
    """Print why a flow runs its arm, the policy's estimates, and the flow's last switches."""
    with ControlClient(settings(options).daemon.control_socket) as client:
        flow = cast("Object", client.call("flows.get", cookie=options.cookie))
    found = cast("Object", flow["why"])
    if options.json:
        print(json.dumps({"cookie": flow["cookie"], "arm": flow["arm"], **found}, indent=2))
        return 0
    lines = [f"Flow {flow['cookie']} to {flow['remote']}. {found['sentence']}"]
    for estimate in cast("list[dict[str, float]]", found["estimates"]):
        mean, lower, upper = estimate["mean"], estimate["lower"], estimate["upper"]
        lines.append(f"  {estimate['arm']:<10} expects a reward of {mean:.3f} ({lower:.3f} to {upper:.3f})")
    numbers = cast("list[Object]", found.get("path", []))
    lines += ["Its path, over the last looks of a quarter of a second or more:"] if numbers else []
    lines += [f"  {str(one['name']).replace('_', ' '):<20} {_number(one)}" for one in numbers]
    for switch in cast("list[Object]", found["switches"]):
        lines.append(f"{_ago(cast('float', switch['age_s']))}: {switch['sentence']}")
    if not found["switches"]:
        lines.append("It has not been switched since the daemon first saw it.")
    print("\n".join(printable(line) for line in lines))
    return 0


def _number(one: Object) -> str:
    """A number of the path with its doubt, unit and age."""
    if one["value"] is None:
        return "not observed"
    doubt = "" if one["error"] is None else f" ± {one['error']:g}"
    return f"{one['value']:g}{doubt} {one['unit']}, {_ago(cast('float', one['age_s']))}"


def _ago(age_s: float) -> str:
    if age_s < 100:
        return f"{age_s:.0f} s ago"
    return f"{age_s / 60:.0f} min ago" if age_s < 6000 else f"{age_s / 3600:.0f} h ago"
