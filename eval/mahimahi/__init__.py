# SPDX-License-Identifier: Apache-2.0
"""The same scenarios in real time on the host's own kernel, through mahimahi's shells."""
