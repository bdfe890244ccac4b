# SPDX-License-Identifier: Apache-2.0
"""Team selection: it finds the k of n arms that are worth choosing among (Mutant, Section 5.2,
Algorithm 2).
"""

from ltp_switcher.mpts.selection import SuccessiveAcceptsRejects, phase_pulls
from ltp_switcher.mpts.tournament import PairedTournament

__all__ = ["PairedTournament", "SuccessiveAcceptsRejects", "phase_pulls"]
