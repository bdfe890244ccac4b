# SPDX-License-Identifier: Apache-2.0
"""Players: flows that share a bottleneck are chosen for as one."""
