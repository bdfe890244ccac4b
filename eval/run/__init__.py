# SPDX-License-Identifier: Apache-2.0
"""One run in the lab: scenario, schemes, results."""
