# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher use` on a real kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.module_lab import EACH_KERNEL, run_selected
from support.named_lab import COSTS, REPORT, WINNERS, run

from ltp_switcher.eval.lab import BootResult

pytestmark = pytest.mark.lab
GROUPS = ("winners",)
Outcomes = Mapping[tuple[str, ...], BootResult]


def boot_group(kernel: str, group: str) -> BootResult:
    with TemporaryDirectory() as folder:
        return run(kernel, group, Path(folder))


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    return run_selected(request, ("kernel", "group"), boot_group)


@pytest.mark.parametrize("kernel", EACH_KERNEL)
@pytest.mark.parametrize("group", GROUPS)
def test_each_check_of_the_group(outcomes: Outcomes, kernel: str, group: str) -> None:
    result = outcomes[kernel, group]
    for name in (WINNERS, COSTS):
        if name in result.files:
            print(json.dumps(json.loads(result.files[name]), indent=1))
    assert result.files.get(REPORT), result.console
    report = json.loads(result.files[REPORT])
    assert len(report) > 1
    assert {name: entry["detail"] for name, entry in report.items() if entry["detail"]} == {}


@pytest.mark.parametrize("kernel", EACH_KERNEL)
@pytest.mark.parametrize("group", GROUPS)
def test_the_kernel_never_complains(outcomes: Outcomes, kernel: str, group: str) -> None:
    result = outcomes[kernel, group]
    assert result.ok, result.console
    assert not result.warnings
