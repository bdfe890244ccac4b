# SPDX-License-Identifier: Apache-2.0
"""Players: the flows that share a bottleneck are one player, and get one common choice of arm."""
