# SPDX-License-Identifier: Apache-2.0
"""The decision loop: reads every flow's measurements each step and says which arm runs next."""
