# SPDX-License-Identifier: Apache-2.0
"""The learned arms at run time: policies read measurements, decide, and send controls to the
kernel module.
"""

from ltp_switcher.daemon.steer.arms import (
    IS_LEARNED,
    LEARNED,
    LearnedArms,
    can_begin,
    chosen_variant,
    loader,
    missing_weights,
    with_policies,
)
from ltp_switcher.daemon.steer.path_signals import NetworkFeed, ToldNetwork

__all__ = [
    "IS_LEARNED",
    "LEARNED",
    "LearnedArms",
    "NetworkFeed",
    "ToldNetwork",
    "can_begin",
    "chosen_variant",
    "loader",
    "missing_weights",
    "with_policies",
]
