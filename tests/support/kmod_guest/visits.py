# SPDX-License-Identifier: Apache-2.0
"""Visits: the flows that share an arm, drawn by a lot that can be drawn again."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ltp_switcher.daemon.datapath import Datapath, OutcomeArray
from ltp_switcher.daemon.datapath.protocol import ControlLaw, StartCause

from .harness import Context, require
from .net import Flow, namespace
from .starting import table

SEED = 0x1234_5678_9ABC_DEF0
PREFIX = "10.1.0.0/24"
LOW = (1 << 64) - 1
WEIGHTS = {"cubic": 30, "bbr": 50, "vegas": 20}


def mixed(x: int) -> int:
    """The finaliser of splitmix64."""
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & LOW
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & LOW
    return x ^ x >> 31


def lot(prefix: str, number: int, limit: int) -> int:
    """The lot of a visit, as `mutant_visit.h` describes it."""
    network = ipaddress.ip_network(prefix)
    address = int.from_bytes(network.network_address.packed.ljust(16, b"\0"), "big")
    found = mixed((SEED + 0x9E3779B97F4A7C15) & LOW)
    for part in (address >> 64, address & LOW, (socket.AF_INET << 16 | network.prefixlen) << 32 | number):
        found = mixed(found ^ part)
    return (found >> 32) * limit >> 32


def drawn(number: int) -> str:
    """The arm that a visit of the prefix draws."""
    place = lot(PREFIX, number, 100)
    return next(
        name
        for name, end in zip(WEIGHTS, np.cumsum(list(WEIGHTS.values())).tolist(), strict=True)
        if place < end
    )


@contextmanager
def drawing(context: Context, generation: int = 7) -> Iterator[Datapath]:
    """A session whose visits of the link's other end draw among three arms."""
    with namespace("la"):
        datapath = Datapath()
    datapath.open_session(start_arms=True, start_seed=SEED, outcomes_max=1000)
    datapath.set_starts(weighted(context, generation))
    try:
        yield datapath
    finally:
        datapath.set_starts(table(context, {PREFIX: ""}))
        datapath.close()


def weighted(context: Context, generation: int) -> np.ndarray:
    made = table(context, {PREFIX: "cubic"})
    made["generation"] = generation
    for place, (name, weight) in zip(made["choice"][0], WEIGHTS.items(), strict=False):
        place["arm"], place["weight"] = context.arm_id(name), weight
    return made


def end(flow: Flow) -> None:
    """Both sides go, and the flow with them."""
    flow.client.close()
    flow.server.close()
    time.sleep(0.1)


def by_visit(outcomes: OutcomeArray) -> dict[int, set[int]]:
    """The arms of each visit's flows."""
    return {
        visit: set(outcomes["arm"][outcomes["visit"] == visit].tolist())
        for visit in outcomes["visit"].tolist()
    }


def each_visit_draws_an_arm_for_all_its_flows(context: Context) -> None:
    records = []
    with drawing(context) as datapath:
        for _ in range(30):
            flows = [context.link.connect("mutant") for _ in range(3)]
            for flow in flows:
                records.append(datapath.flow(flow.cookie).record)
                end(flow)
            time.sleep(1.05)
        outcomes = datapath.outcomes().outcomes
    require(len(outcomes) == 90, f"{len(outcomes)} outcomes")
    require(bool((outcomes["cause"] == StartCause.TABLE).all()), f"{outcomes['cause']}")
    require(
        bool((outcomes["generation"] == 7).all() and (outcomes["weights"] == 100).all()), f"{outcomes[0]}"
    )
    arms = by_visit(outcomes)
    require(sorted(arms) == list(range(1, 31)), f"visits {sorted(arms)}")
    require({len(found) for found in arms.values()} == {1}, "a visit has several arms")
    for visit, found in arms.items():
        name = drawn(visit)
        require(found == {context.arm_id(name)}, f"visit {visit}: {found} instead of {name}")
        weights = outcomes["weight"][outcomes["visit"] == visit]
        require(bool((weights == WEIGHTS[name]).all()), f"visit {visit}: {weights}")
    require(len({min(found) for found in arms.values()}) == 3, "30 visits have not drawn all three arms")
    told = np.concatenate(records)
    require(
        told["cookie"].tolist() == outcomes["cookie"].tolist(), "outcomes of other flows, or in another order"
    )
    for name in ("visit", "generation", "weight", "weights"):
        require(
            bool((told[name] == outcomes[name]).all()),
            f"{name}: {told[name]} in records, else {outcomes[name]}",
        )
    require(bool((told["start_cause"] == StartCause.TABLE).all()), f"{told['start_cause']}")


def two_lots_of_one_arm_differ_by_weight(context: Context) -> None:
    """A record tells which of them a flow's visit drew."""
    with drawing(context) as datapath:
        made = table(context, {PREFIX: "cubic"})
        made["generation"] = 5
        for place, weight in zip(made["choice"][0], (60, 40), strict=False):
            place["arm"], place["weight"] = context.arm_id("cubic"), weight
        datapath.set_starts(made)
        seen = []
        for _ in range(20):
            flow = context.link.connect("mutant")
            (told,) = datapath.flow(flow.cookie).record
            require(told["arm"] == context.arm_id("cubic") and told["generation"] == 5, f"{told}")
            seen.append(int(told["weight"]))
            end(flow)
            time.sleep(1.05)
    require(set(seen) == {40, 60}, f"weights {seen}")


def a_visit_lasts_while_flows_are_open_and_a_minute_at_most(context: Context) -> None:
    with drawing(context) as datapath:
        long = context.link.connect("mutant")
        began_s = time.monotonic()
        for at_s in (5, 30, 58, 62, 100):
            time.sleep(began_s + at_s - time.monotonic())
            end(context.link.connect("mutant"))
        end(long)
        # New weights count from the next visit on.
        datapath.set_starts(weighted(context, 8))
        end(context.link.connect("mutant"))
        time.sleep(1.05)
        end(context.link.connect("mutant"))
        outcomes = datapath.outcomes().outcomes
    require(outcomes["visit"].tolist() == [1, 1, 1, 2, 2, 1, 2, 3], f"{outcomes['visit']}")
    require(outcomes["generation"].tolist() == [7] * 7 + [8], f"{outcomes['generation']}")


def a_learned_arm_begins_with_its_first_control(context: Context) -> None:
    with namespace("la"):
        datapath = Datapath()
    datapath.open_session(start_arms=True, outcomes_max=10)
    made = table(context, {PREFIX: "ltp"})
    made["choice"]["law"][0][0] = ControlLaw.WINDOW
    for wanted, window in ((17, 17), (5000, 20), (1, 5)):
        made["choice"]["value"][0][0][:2] = wanted, 99
        datapath.set_starts(made)
        flow = context.link.connect("mutant")
        require(flow.congestion == "m/ltp", flow.congestion)
        # The first steps measure, and the flow sends enough for its window to count.
        datapath.close_step()
        flow.client.sendall(bytes(200_000))
        flow.server.recv(200_000, socket.MSG_WAITALL)
        record = datapath.flow(flow.cookie).record[0]
        require(record["snd_cwnd"] == window, f"a window of {wanted}: {record['snd_cwnd']} packets")
        end(flow)
        (outcome,) = datapath.outcomes().outcomes
        require(outcome["arm"] == context.arm_id("ltp") and outcome["visit"], f"{outcome}")
        time.sleep(1.05)
    datapath.set_starts(table(context, {PREFIX: ""}))
    datapath.close()


def a_prefix_may_leave_the_table_while_its_flows_last(context: Context) -> None:
    """They end as members of a visit that nobody can find any more; a new entry counts anew."""
    with drawing(context) as datapath:
        first = context.link.connect("mutant")
        datapath.set_starts(table(context, {PREFIX: ""}))
        bare = context.link.connect("mutant")
        datapath.set_starts(weighted(context, 9))
        second = context.link.connect("mutant")
        for flow in (first, bare, second):
            end(flow)
        outcomes = datapath.outcomes().outcomes
    require(outcomes["visit"].tolist() == [1, 0, 1], f"{outcomes['visit']}")
    require(outcomes["generation"].tolist() == [7, 0, 9], f"{outcomes['generation']}")
    require(outcomes["cause"].tolist()[1] == StartCause.DEFAULT, f"{outcomes['cause']}")


CHECKS = (
    each_visit_draws_an_arm_for_all_its_flows,
    two_lots_of_one_arm_differ_by_weight,
    a_visit_lasts_while_flows_are_open_and_a_minute_at_most,
    a_learned_arm_begins_with_its_first_control,
    a_prefix_may_leave_the_table_while_its_flows_last,
)
