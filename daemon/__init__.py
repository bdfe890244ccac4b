# SPDX-License-Identifier: Apache-2.0
"""The decision loop: it reads every flow's measurements each step, and decides which arm runs next."""
