# SPDX-License-Identifier: Apache-2.0
"""Routes that give chosen destinations the congestion control `mutant`, beside the routes that are there."""
