# SPDX-License-Identifier: Apache-2.0
"""The doctor's findings about this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from ltp_switcher.daemon.cli.examination import capability, missing_module

RELEASE = "6.1.0-test"


@pytest.mark.parametrize(
    ("there", "detail", "advice"),
    [
        (["updates/dkms/tcp_mutant.ko.xz"], "is installed, not loaded", "modprobe tcp_mutant"),
        (["build"], "is not installed", "apt reinstall ltp-switcher-dkms"),
        ([], "cannot be built", "apt install linux-headers-6.1.0-test"),
    ],
)
def test_the_advice_about_a_missing_module_fits_the_machine(
    tmp_path: Path, there: list[str], detail: str, advice: str
) -> None:
    for name in there:
        place = tmp_path / RELEASE / name
        place.parent.mkdir(parents=True)
        place.touch()
    found = missing_module(tmp_path, RELEASE)
    assert found.verdict == "fail"
    assert detail in found.detail
    assert advice in found.advice


@pytest.mark.parametrize(
    ("effective", "verdict"),
    [
        ("000001ffffffffff", "ok"),
        ("0000000000001000", "ok"),
        ("0000000000000fff", "warn"),
        ("0" * 16, "warn"),
    ],
)
def test_only_cap_net_admin_in_force_counts(effective: str, verdict: str) -> None:
    """CAP_NET_ADMIN is bit 12 (capability.h)."""
    status = f"Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective}\n"
    assert capability(status).verdict == verdict
