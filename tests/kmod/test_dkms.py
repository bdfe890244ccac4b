# SPDX-License-Identifier: Apache-2.0
"""DKMS builds the module for the kernels that it should, and for no others."""

from __future__ import annotations

import subprocess

import pytest
from support.module_lab import REPOSITORY

CONF = REPOSITORY / "kmod-mutant/dkms.conf"


def wanted(variable: str, value: str) -> bool:
    """Whether DKMS would build, by the comparison of its own script."""
    script = f'. "$1"; [[ $2 =~ ${variable} ]]'
    return subprocess.run(["bash", "-c", script, "-", CONF, value], check=False).returncode == 0


@pytest.mark.parametrize(
    ("release", "built"),
    [
        ("4.19.0-27-amd64", False),
        ("5.10.0-34-amd64", False),
        ("6.0.12", False),
        ("6.1.0-56-amd64", True),
        ("6.12.117+deb12-amd64", True),
        ("7.0.3-amd64", True),
        ("10.2.0", True),
    ],
)
def test_kernels_from_6_1_on(release: str, built: bool) -> None:
    assert wanted("BUILD_EXCLUSIVE_KERNEL", release) is built


@pytest.mark.parametrize(("machine", "built"), [("x86_64", True), ("aarch64", True), ("i686", False)])
def test_machines_of_64_bits(machine: str, built: bool) -> None:
    assert wanted("BUILD_EXCLUSIVE_ARCH", machine) is built
