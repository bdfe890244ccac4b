# SPDX-License-Identifier: Apache-2.0
"""The module on four processors in real time, while the allocator poisons freed memory.

`guest` boots Debian's kernel and runs a round: everything at once that can go wrong between processors.
`console` reads the reports out of the kernel's log. `planted` puts a known fault into a copy of the module,
because a gate that never closes proves nothing.
"""
