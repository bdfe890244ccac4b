# SPDX-License-Identifier: Apache-2.0
"""Team selection: find the k of n arms with the highest mean rewards (Mutant, Section 5.2, Algorithm 2)."""

from ltp_switcher.mpts.selection import SuccessiveAcceptsRejects, phase_pulls
from ltp_switcher.mpts.tournament import PairedTournament

__all__ = ["PairedTournament", "SuccessiveAcceptsRejects", "phase_pulls"]
