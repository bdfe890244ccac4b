# SPDX-License-Identifier: Apache-2.0
"""The encoder: a GRU that maps a flow's features to the context of the bandit (Mutant, Section 5.1)."""

from ltp_switcher.encoder.artifact import WEIGHTS, Artifact, load, save
from ltp_switcher.encoder.gru import GRUEncoder

__all__ = ["WEIGHTS", "Artifact", "GRUEncoder", "load", "save"]
