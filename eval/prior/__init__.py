# SPDX-License-Identifier: Apache-2.0
"""How well one look at BBR's start tells which arm suits a path."""
