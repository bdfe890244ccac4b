# SPDX-License-Identifier: Apache-2.0
"""The default policy: three arms, chosen by what a path shows, and checked by what they earn."""
