# SPDX-License-Identifier: Apache-2.0
"""The rows of the decision log: one for each decision, with its propensities and its outcome."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath.protocol import ARMS_MAX

Rows = npt.NDArray[np.void]
"""Rows of the decision log: `ROW_DTYPE`, shape (n,)."""

RTT_SAMPLES: Final = 12
"""Largest number of RTT samples in a row. A sample is taken once a second."""


class Kind(IntEnum):
    """The source of a flow's arm."""

    CHOSEN = 0
    """The policy chose the arm."""
    EXPLORED = 1
    """Exploration drew the arm at random; the setting gain.explore is the chance of this."""
    PULL = 2
    """Team selection, the search for a path's best arms, chose the arm."""
    OPERATOR = 3
    """An operator decided: by a pin, or by a policy that holds the flow at an arm, excludes it, or names its
    arms.
    """
    BASELINE = 4
    """The experiment chose the arm: the flow is in the control group."""
    VISIT = 5
    """The flow's visit drew the arm. A visit is a group of flows to a prefix that began near each other."""


class Group(IntEnum):
    """The group of an experiment to which a row belongs. Treated flows get the daemon's choices, and flows of
    the control group stay on the baseline arm.
    """

    NONE = 0
    TREATED = 1
    CONTROL = 2
    WASHOUT = 3
    """A row that the experiment's report leaves out. It lies in the first part of a time block, when the arms
    of the earlier block still act, or in a rollout by prefixes.
    """


CONTEXT: Final = ("age_s", "srtt_us", "min_rtt_us", "delivery_rate_Bps", "cwnd_pkts", "loss")
"""Names of a flow's measurements at the beginning of a decision. `loss` is the share of the flow's packets
lost so far.
"""

ROW_DTYPE: Final[np.dtype[np.void]] = np.dtype(
    [
        ("time_s", "f8"),  # Unix time of the decision.
        ("duration_s", "f4"),  # Time until the flow's next decision, or its end.
        ("busy_s", "f4"),  # Seconds with data acknowledged; `duration_s` if none was seen.
        ("cookie", "u8"),  # Cookie of the flow.
        ("prefix", "S32"),  # Destination prefix of the flow.
        ("model", "u4"),  # Version of the policy: its kind, its settings and the program's version.
        ("arm", "u1"),  # The arm of the decision.
        ("policy_arm", "u1"),  # The arm that the policy chose, before chance or experiment.
        ("ran", "u1"),  # The arm that the flow ran; in the mode advise it may be another one.
        ("kind", "u1"),  # One of `Kind`.
        ("group", "u1"),  # One of `Group`.
        ("active", "?"),  # Whether the decision was carried out.
        ("ended", "?"),  # Whether the flow ended.
        ("block", "i8"),  # Number of the time block of a switchback or rollout; -1 without one.
        ("probability", "f4", (ARMS_MAX + 1,)),  # Probability of every arm by its id, given the context.
        ("context", [(name, "f4") for name in CONTEXT]),
        ("reward", "f4"),  # Eq. 1 over the data sent under the arm, 0 to 1; NaN if there was too little.
        ("acked_bytes", "f8"),
        ("delivered", "f8"),  # Packets.
        ("lost", "f8"),
        ("retrans", "f8"),
        ("rtt_us", "f4", (RTT_SAMPLES,)),  # Smoothed RTT at each second with data, else NaN.
        ("life_s", "f4"),  # Age of the flow at the end of the row.
    ]
)
