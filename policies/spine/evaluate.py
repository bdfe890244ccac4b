# SPDX-License-Identifier: Apache-2.0
"""Judge Spine and Spine-Cubic in the simulator: python -m ltp_switcher.policies.spine.evaluate [--json].

All links of a monitor interval run side by side, with several seeds of each kind. One kind, the square wave,
is the link of Spine, Section 2.2, with the values of Spine, Section 7.1 (30 ms, 750 KB). Its rate changes
every 10 s between 100 and 50 Mbit/s; the paper gives no rates.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import track

from ltp_switcher.arrays import Ints
from ltp_switcher.commands import program
from ltp_switcher.measures import loss_rate
from ltp_switcher.policies.runtime.arm import Arm, Law
from ltp_switcher.policies.runtime.declaration import Variant
from ltp_switcher.policies.simulator.paths import PACKET_BYTES, Paths
from ltp_switcher.policies.spine import ARM, INTERVAL_S, make_arm
from ltp_switcher.policies.spine.play import DURATION_S, SpineRun, constant, play, square_wave

INTERVALS_S: Final = (0.020, 0.050, 0.100, 0.200, 0.300)
SEEDS: Final = 4
BUFFER_PKTS: Final = 750e3 / PACKET_BYTES


@dataclass(frozen=True)
class Kind:
    """A kind of link. It also says whether a Cubic flow sends beside the judged flow."""

    name: str
    rtt_ms: float = 30.0
    loss: float = 0.0
    beside_cubic: bool = False
    changing: bool = False


KINDS: Final = (
    Kind("square wave", changing=True),
    Kind("static"),
    Kind("loss 1 %", loss=0.01),
    Kind("beside cubic, 30 ms", rtt_ms=30.0, beside_cubic=True),
    Kind("beside cubic, 60 ms", rtt_ms=60.0, beside_cubic=True),
    Kind("beside cubic, 120 ms", rtt_ms=120.0, beside_cubic=True),
)


@dataclass(frozen=True)
class LinkSummary:
    """Measures of a kind of link after the warm-up, as means over the seeds."""

    utilisation: float
    """Share of the link's capacity that the judged flow used."""
    rtt_ms: float
    loss: float
    ratio_to_cubic: float | None
    """Throughput of the judged flow over the throughput of the Cubic flow beside it, if there is one."""
    generator_every_s: float | None
    """Mean time between two runs of the policy generator, in seconds; None if there is no
    policy generator.
    """


def links() -> Paths:
    """Make `SEEDS` links of each kind. Except for the square wave, a link has 100 Mbit/s and a buffer of one
    BDP.
    """
    kinds = [kind for kind in KINDS for _ in range(SEEDS)]
    changing = np.array([kind.changing for kind in kinds])
    paths = constant(np.full(len(kinds), 100.0), np.array([kind.rtt_ms for kind in kinds]))
    return square_wave(
        replace(
            paths,
            buffer_pkts=np.where(changing, BUFFER_PKTS, paths.buffer_pkts),
            loss=np.array([kind.loss for kind in kinds]),
        ),
        changing,
        period_s=10.0,
        changes=3,
    )


def summaries_of(arm: Arm | None, law: Law, interval_s: float) -> dict[str, LinkSummary]:
    """Simulate a flow on all links of `links`, and return a summary for each kind of link, by the kind's
    name. The flow runs `arm`. Without an arm it runs Cubic, and `law` must be `Law.CUBIC`.
    """
    paths = links()
    beside_cubic = np.repeat([kind.beside_cubic for kind in KINDS], SEEDS)
    run = play(arm, law, interval_s, paths, beside_cubic)
    places = np.split(np.arange(paths.count), len(KINDS))
    return {
        kind.name: _summary(kind, run, place, has_generator=arm is not None)
        for kind, place in zip(KINDS, places, strict=True)
    }


def _summary(kind: Kind, run: SpineRun, place: Ints, *, has_generator: bool) -> LinkSummary:
    totals = run.totals
    acked, cubic = totals.acked_pkts[:2, place].sum(axis=1)
    every_s = DURATION_S / np.maximum(run.generated[place], 1.0).mean()
    return LinkSummary(
        utilisation=float(acked / totals.served_pkts[place].sum()),
        rtt_ms=float(1e3 * totals.rtt_sum_s[0, place].sum() / acked),
        loss=float(loss_rate(totals.lost_pkts[0, place].sum(), acked)),
        ratio_to_cubic=float(acked / cubic) if kind.beside_cubic else None,
        generator_every_s=float(every_s) if has_generator else None,
    )


def judge(spine: Variant, spine_cubic: Variant) -> dict[str, dict[str, LinkSummary]]:
    """Simulate Spine, Spine-Cubic and Cubic on all links, and return summaries by scheme and kind of link.

    Spine runs once with each monitor interval of `INTERVALS_S`. Spine-Cubic and Cubic run once, with the
    interval `INTERVAL_S`.
    """
    console = Console(stderr=True)
    judged = {
        f"spine {1e3 * interval_s:.0f} ms": summaries_of(
            make_arm(spine, interval_s=interval_s), Law.AIMD, interval_s
        )
        for interval_s in track(INTERVALS_S, "spine at each interval", console=console)
    }
    judged["spine-cubic"] = summaries_of(make_arm(spine_cubic), Law.CUBIC, INTERVAL_S)
    judged["cubic"] = summaries_of(None, Law.CUBIC, INTERVAL_S)
    return judged


@program("evaluate")
def main(arguments: Sequence[str] | None) -> int:
    """Print the figures as a table or as JSON; returns the exit status."""
    spine, spine_cubic = ARM.variants
    parser = argparse.ArgumentParser(
        prog="python -m ltp_switcher.policies.spine.evaluate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--spine", type=Path, default=spine.weights, metavar="FILE")
    parser.add_argument("--spine-cubic", type=Path, default=spine_cubic.weights, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    judged = judge(replace(spine, weights=options.spine), replace(spine_cubic, weights=options.spine_cubic))
    if options.json:
        print(json.dumps({name: {k: asdict(f) for k, f in kinds.items()} for name, kinds in judged.items()}))
        return 0
    header = ("util.", "RTT ms", "loss %", "/ cubic", "runs every s")
    print("{:14} {:21} {:>6} {:>7} {:>7} {:>8} {:>13}".format("scheme", "link", *header))
    for name, kinds in judged.items():
        for kind, found in kinds.items():
            ratio = "" if found.ratio_to_cubic is None else f"{found.ratio_to_cubic:.2f}"
            every = "" if found.generator_every_s is None else f"{found.generator_every_s:.2f}"
            print(
                f"{name:14} {kind:21} {found.utilisation:6.3f} {found.rtt_ms:7.1f} "
                f"{100 * found.loss:7.2f} {ratio:>8} {every:>13}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
