# SPDX-License-Identifier: Apache-2.0
"""The Debian packages in virtual machines with systemd: install, steer, kill, upgrade, roll back, purge.

Run by `make test-packages`. Needs root and mmdebstrap. For each release of Debian:

1. `build` makes the packages of this tree (N) and of an earlier revision (N-1), and a newer build of Python.
2. `machine` makes a Debian machine with mmdebstrap, and boots it under QEMU: no KVM, no network.
3. `guest/run.sh` runs in it, and reports each check over a serial port.
4. `matrix` makes the table.

Each of them is kept, and not done again unless its inputs have changed.
"""
