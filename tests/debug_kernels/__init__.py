# SPDX-License-Identifier: Apache-2.0
"""The module under the kernel's own sanitizers, on four processors in real time.

`build` makes two small debug kernels. `guest` boots one and runs a round: everything at once that can go
wrong between processors. `console` reads the reports out of the kernel's log. `planted` puts known faults
into copies of the module, because a gate that never closes proves nothing.
"""
