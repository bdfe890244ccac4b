# SPDX-License-Identifier: Apache-2.0
"""One step: every flow's aggregate in, one batch of commands out."""
