# SPDX-License-Identifier: Apache-2.0
"""The path of a flow, measured by its records."""
