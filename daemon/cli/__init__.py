# SPDX-License-Identifier: Apache-2.0
"""The command line: run the daemon, show its flows, and give it commands."""
