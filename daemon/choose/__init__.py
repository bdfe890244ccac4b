# SPDX-License-Identifier: Apache-2.0
"""The choosers. Each picks an arm for every flow."""
