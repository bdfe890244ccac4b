# SPDX-License-Identifier: Apache-2.0
"""Times with and without Careful Resume, by path and size: `python3 -m kmod_guest.resume_times ARM...`."""

from __future__ import annotations

import json
import sys

from ltp_switcher.daemon.datapath import Datapath

from .harness import REPORT, Context, insmod, say
from .net import Link, Traffic
from .resuming import FRAME_BYTES, MB, PACKET_BYTES, RTT_S, resuming, round_trips, transfer, warm

PRODUCTS_PKTS = (100, 200, 500, 1000)
SIZES = (100_000, 300_000, MB, 3 * MB)


def main(arms: list[str]) -> None:
    """Measure each arm, path and size once, and leave the rows in the report."""
    insmod(watchdog_ms=0, handover="as-is", restore="as-is")
    datapath = Datapath()
    datapath.open_session()
    context = Context(datapath, Link.create("l", 1), Traffic())
    rows = []
    with resuming(context):
        for product in PRODUCTS_PKTS:
            rate_mbit = product * FRAME_BYTES * 8 / RTT_S / 1e6
            for size in SIZES:
                packets = size / PACKET_BYTES
                without = round_trips(packets, 0, product)
                possible_s = RTT_S * (without - round_trips(packets, product / 2, product))
                for arm in arms:
                    warm(context, rate_mbit)
                    datapath.set_config(default_arm=context.arm_id(arm))
                    fast, slow = transfer(context, size), transfer(context, size, resume=False)
                    rows.append(
                        {
                            "arm": arm, "bdp_pkts": product, "size_bytes": size, "flags": fast.flags.name,
                            "with_s": fast.seconds, "without_s": slow.seconds, "possible_s": possible_s,
                            "ideal_without_s": RTT_S * without,
                            "retransmits": [fast.retransmits, slow.retransmits],
                        }
                    )  # fmt: skip
                    say(json.dumps(rows[-1]))
    REPORT.write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
