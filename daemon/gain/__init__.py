# SPDX-License-Identifier: Apache-2.0
"""Whether the daemon pays on the operator's own traffic: the log of decisions, and judgements from it."""
