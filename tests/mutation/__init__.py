# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: plant one fault at a time, run the tests that reach it, count how many are caught.

`make mutate` plants every fault of `faults.toml` and a sample of small changes, drawn by seed from the lines
of the package. It prints the faults that no test noticed, then `caught N of M`.

Why not mutmut: version 3 changes bodies of functions alone, and many faults here are constants of modules. It
derives a module's name from its path, and the folders here are linked into `src/ltp_switcher`. It draws no
sample by seed.
"""
