# SPDX-License-Identifier: Apache-2.0
"""Lots: the arms among which the visits of a prefix draw. They become entries of the module's table, and can
be read from its entries again.

A visit is a group of flows to a prefix that began near each other. A prefix has an incumbent and, mostly, a
trial. Each of the two is an arm or the decision's own choice. The generation of an entry encodes both, and
the trial has less than half of the weight. So the lot of a visit can be read from an outcome alone, even by a
daemon that started later.

The two lots of an entry begin on different arms. So the first arm of a flow shows its lot, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Floats, Ints
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX, START_DTYPE, ControlLaw
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.daemon.step.learning.places import Places

DECISION: Final = 0
"""The lot of the decision's own choice. Any other lot is the id of an arm."""
WEIGHTS: Final = 65_535
"""Sum of the weights of an entry."""
FIRST_WINDOW_PKTS: Final = 10
"""Window of a learned arm until its first control, in packets. It is the kernel's own window for a new flow
(RFC 6928).
"""
_BITS: Final = ARMS_MAX.bit_length()
_MASK: Final = (1 << _BITS) - 1
_NUMBERS: Final = 1 << (32 - 2 * _BITS)
_IS_LEARNED: Final = np.isin(np.arange(256), list(LEARNED))
"""True for the ids of learned arms, by id."""


def generations(incumbent: ArmIds, trial: ArmIds, number: int) -> npt.NDArray[np.uint32]:
    """The generations of entries, shape (n,), never 0. `number` is the plan's number; it may begin anew."""
    made = 1 + number % (_NUMBERS - 1)
    named = incumbent.astype(np.uint32) | trial.astype(np.uint32) << _BITS
    return (named | np.uint32(made << 2 * _BITS)).astype(np.uint32)


def incumbents(generation: npt.NDArray[np.uint32]) -> ArmIds:
    """The incumbents that the generations of entries name, shape (n,); 0 stands for an entry without lots."""
    return (generation & _MASK).astype(np.uint8)


def drawn(outcomes: OutcomeArray) -> ArmIds:
    """The arms that the visits of flows drew, shape (n,). A flow without a lot has the
    decision's own choice.
    """
    generation = np.where(outcomes["visit"] > 0, outcomes["generation"], 0)
    trials = (generation >> _BITS & _MASK).astype(np.uint8)
    is_trial = 2 * outcomes["weight"].astype(np.int64) < outcomes["weights"]
    return np.where(is_trial, trials, incumbents(generation))


def chance(outcomes: OutcomeArray) -> Floats:
    """The probabilities of the lots that were drawn, shape (n,); 1 where no lot was drawn."""
    weights = outcomes["weights"].astype(np.float64)
    made: Floats = np.divide(outcomes["weight"], weights, out=np.ones(len(outcomes)), where=weights > 0)
    return made


def trial_weights(chances: Floats) -> Ints:
    """The weights that give trials these probabilities, shape (n,). Each is below half of `WEIGHTS`."""
    weights = np.rint(chances * WEIGHTS).astype(np.int64)
    return np.where(chances > 0, weights.clip(1, WEIGHTS // 2), 0)


def entries(
    places: Places,
    starts: ArmIds,
    weights: Ints,
    generation: npt.NDArray[np.uint32],
    lifetime_s: int,
) -> npt.NDArray[np.void]:
    """Make entries of the table, `START_DTYPE`, shape (n,).

    Args:
        places: prefixes and hosts, shape (n,).
        starts: the arms on which flows of the incumbent and of the trial begin, shape (n, 2). A prefix whose
            incumbent has no such arm leaves the table.
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
        learned = _IS_LEARNED[arms]
        choice["law"][:, place] = np.where(learned, ControlLaw.WINDOW, 0)
        choice["value"][:, place, 0] = np.where(learned, FIRST_WINDOW_PKTS, 0)
    return made
