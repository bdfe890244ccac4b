# SPDX-License-Identifier: Apache-2.0
"""One step of the daemon: it reads the measurements of every flow, decides, and sends one batch of commands
to the kernel module.
"""
