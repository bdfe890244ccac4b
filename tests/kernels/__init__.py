# SPDX-License-Identifier: Apache-2.0
"""The module on kernels of other Debian releases.

Run by `make test-kernels`. Needs root and mmdebstrap. For each release:

1. `release` unpacks the release's compiler, kernel headers and kernel into a tree, from Debian's archive.
2. In that tree, with that compiler, it builds the module and the lab's own modules. W=1 must print no
   warning.
3. The tests of the module run in the lab on that kernel, then `ltp-eval run` on a short scenario.

For arm64 the module is built with Debian's cross compiler alone, from the sources of Debian 12's 6.12.
"""
