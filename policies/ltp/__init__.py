# SPDX-License-Identifier: Apache-2.0
"""Learn-to-Probe (LTP, Tian et al., EuroSys 2026): a policy trained to keep the network's state knowable."""
