# SPDX-License-Identifier: Apache-2.0
"""What runs inside the lab's guest: checks of the module on a real kernel, and their tools."""
