# SPDX-License-Identifier: Apache-2.0
"""Players: the flows that share a bottleneck get one common choice."""
