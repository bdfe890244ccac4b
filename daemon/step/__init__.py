# SPDX-License-Identifier: Apache-2.0
"""One step: the daemon reads every flow's aggregate and sends one batch of commands."""
