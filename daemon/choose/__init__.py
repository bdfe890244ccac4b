# SPDX-License-Identifier: Apache-2.0
"""The choosers: each picks an arm for every flow."""
