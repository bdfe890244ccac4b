# SPDX-License-Identifier: Apache-2.0
"""How long a step takes with thousands of flows: the real parser, flow table, policy and controls."""
