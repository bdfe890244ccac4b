# SPDX-License-Identifier: Apache-2.0
"""The command line: run the daemon, look at its flows, tell it what to do."""
