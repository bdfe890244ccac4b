# SPDX-License-Identifier: Apache-2.0
"""The checks of `kmod_guest` on both kernels: one boot per kernel and group, one test per check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.kmod_guest.main import GROUPS
from support.module_lab import (
    EACH_KERNEL,
    bpf_congestion_control,
    guest_files,
    probe_module,
    run,
    run_selected,
)

from ltp_switcher.eval.lab import BootResult

pytestmark = pytest.mark.lab
CHECKS = [(group, check.__name__) for group, checks in GROUPS.items() for check in checks]
Outcomes = Mapping[tuple[str, ...], BootResult]


def boot_group(kernel: str, group: str) -> BootResult:
    overlay = guest_files()
    with TemporaryDirectory() as folder:
        overlay["lib/mutant/tcp_probecc.ko"] = probe_module(kernel)
        overlay.update(bpf_congestion_control(Path(folder)))
    return run(kernel, f"python3 -m kmod_guest.main {group}", overlay, python=True)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    return run_selected(request, ("kernel", "group"), boot_group)


@pytest.mark.parametrize("kernel", EACH_KERNEL)
@pytest.mark.parametrize(("group", "check"), CHECKS)
def test_check(outcomes: Outcomes, kernel: str, group: str, check: str) -> None:
    result = outcomes[kernel, group]
    assert result.files, result.console
    detail = json.loads(result.files["/tmp/report.json"])[check]["detail"]  # noqa: S108
    assert not detail, detail


@pytest.mark.parametrize("kernel", EACH_KERNEL)
@pytest.mark.parametrize("group", GROUPS)
def test_the_kernel_never_complains(outcomes: Outcomes, kernel: str, group: str) -> None:
    result = outcomes[kernel, group]
    assert result.ok, result.console
    assert not result.warnings
