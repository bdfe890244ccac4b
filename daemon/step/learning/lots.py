# SPDX-License-Identifier: Apache-2.0
"""Lots: the arms among which the visits of a prefix draw. They become entries of the module's table, and can
be read from its entries again.

A visit is a group of flows to a prefix that began near each other. Each visit to a prefix draws one of two
lots. The incumbent is the arm that seems best, and the trial is an arm to test, if there is one. Each of the
two may also be the decision's own choice.

An entry has a weight for each lot and a number, the generation, which encodes both lots. It also tells
whether the trial is a pull, which an operator's team selection asks for. The trial has less than half of the
weight. The module reports the generation and the drawn weight with each record and each
outcome of a flow. So the lot can be read from one of these alone, even by a daemon that started later. The
flows of both lots may begin on the same arm. Then the decision may move its own flows later, and the trial's
flows stay.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Bools, Floats, Ints
from ltp_switcher.daemon.datapath import OutcomeArray, RecordArray
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX, START_DTYPE, ControlLaw, StartCause
from ltp_switcher.daemon.steer import IS_LEARNED
from ltp_switcher.daemon.step.learning.places import Places

DECISION: Final = 0
"""The lot of the decision's own choice. Any other lot is the id of an arm."""
WEIGHTS: Final = 65_535
"""Sum of the weights of an entry's two lots. A visit draws a lot with the probability of its weight over this
sum.
"""
FIRST_WINDOW_PKTS: Final = 10
"""Window of a learned arm until the daemon sends the first one, in packets. It is the kernel's own window for
a new flow (RFC 6928).
"""
RECORDS: Final = 6
"""The first version of the module's records that tell the lot of a flow."""
_BITS: Final = ARMS_MAX.bit_length()
_MASK: Final = (1 << _BITS) - 1
_PULL_BIT: Final = 31
_NUMBERS: Final = 1 << (_PULL_BIT - 2 * _BITS)


def generations(
    incumbent: ArmIds, trial: ArmIds, number: int, pull: Bools | None = None
) -> npt.NDArray[np.uint32]:
    """Encode the incumbents and the trials of prefixes as numbers, the generations of table entries, shape
    (n,).

    A generation is never 0. `number` tells the generations of different plans apart; it wraps around. `pull`,
    shape (n,), is true where a team selection asks for the trial; None stands for nowhere.
    """
    made = 1 + number % (_NUMBERS - 1)
    named = incumbent.astype(np.uint32) | trial.astype(np.uint32) << _BITS
    if pull is not None:
        named |= pull.astype(np.uint32) << _PULL_BIT
    return (named | np.uint32(made << 2 * _BITS)).astype(np.uint32)


def incumbents(generation: npt.NDArray[np.uint32]) -> ArmIds:
    """The incumbents that the generations of table entries encode, shape (n,). A 0 means the decision's own
    choice, or an entry without lots.
    """
    return (generation & _MASK).astype(np.uint8)


def are_pulls(generation: npt.NDArray[np.uint32], lots: Ints) -> Bools:
    """True for visits that a team selection asked for, shape (n,): they drew the trial of an entry whose
    trial is a pull.

    Args:
        generation: generations of the table entries from which the visits drew, shape (n,).
        lots: the lots that the visits drew, shape (n,).
    """
    found: Bools = (generation >> _PULL_BIT == 1) & (generation >> _BITS & _MASK == lots)
    return found


def has_lot(records: RecordArray) -> Bools:
    """True for flows that began on the arm of a lot, shape (n,). `records` has the flows' records."""
    table = records["start_cause"] == StartCause.TABLE
    found: Bools = table & (records["visit"] > 0) & (records["generation"] > 0)
    return found


def drawn(told: RecordArray | OutcomeArray) -> ArmIds:
    """The arms that the flows' visits drew, from the flows' records or outcomes, shape (n,); `DECISION` for
    the decision's own choice, and for flows whose visit drew no lot.
    """
    generation = np.where(told["visit"] > 0, told["generation"], 0)
    trials = (generation >> _BITS & _MASK).astype(np.uint8)
    is_trial = 2 * told["weight"].astype(np.int64) < told["weights"]
    return np.where(is_trial, trials, incumbents(generation))


def chance(told: RecordArray | OutcomeArray) -> Floats:
    """The probabilities with which the flows' visits drew their lots, from the flows' records or outcomes,
    shape (n,). Where no lot was drawn, it is 1.
    """
    weights = told["weights"].astype(np.float64)
    made: Floats = np.divide(told["weight"], weights, out=np.ones(len(told)), where=weights > 0)
    return made


def trial_weights(chances: Floats) -> Ints:
    """Return the weights with which trials are drawn at these probabilities, shape (n,). A weight is 0 for a
    probability of 0, and otherwise from 1 to below half of `WEIGHTS`.
    """
    weights = np.rint(chances * WEIGHTS).astype(np.int64)
    return np.where(chances > 0, weights.clip(1, WEIGHTS // 2), 0)


def entries(
    places: Places,
    starts: ArmIds,
    weights: Ints,
    generation: npt.NDArray[np.uint32],
    lifetime_s: int,
) -> npt.NDArray[np.void]:
    """Make entries of the module's table of starting arms, `START_DTYPE`, shape (n,).

    Args:
        places: prefixes and hosts, shape (n,).
        starts: the arms on which flows of the incumbent and of the trial begin, shape (n, 2). If the first of
            the two is 0, the entry takes its place out of the table.
        weights: weights of the trials, shape (n,). A trial with weight 0 is left out.
        generation: generation of each entry, shape (n,).
        lifetime_s: time for which the entries count, in seconds.
    """
    made = np.zeros(len(places), START_DTYPE)
    for name, field in (("addr", "address"), ("family", "family"), ("bits", "bits")):
        made[name] = places[field]
    made["generation"], made["lifetime_s"] = generation, lifetime_s
    choice = made["choice"]
    for place, weight in enumerate((WEIGHTS - weights, weights)):
        arms = np.where((weight > 0) & (starts[:, 0] != 0), starts[:, place], 0)
        choice["arm"][:, place] = arms
        choice["weight"][:, place] = np.where(arms != 0, weight, 0)
        learned = IS_LEARNED[arms]
        choice["law"][:, place] = np.where(learned, ControlLaw.WINDOW, 0)
        choice["value"][:, place, 0] = np.where(learned, FIRST_WINDOW_PKTS, 0)
    return made
