# SPDX-License-Identifier: Apache-2.0
"""From the netlink contract's two YAML files to C, Python and Markdown."""
