# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher use` on a real kernel: who wins, life and removal, layouts of routes, costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.module_lab import EACH_KERNEL, run_selected
from support.named_lab import COSTS, PREFIXES, REPORT, WINNERS, run

from ltp_switcher.eval.lab import BootResult

pytestmark = pytest.mark.lab
GROUPS = ("winners", "costs", *(pytest.param(name, marks=pytest.mark.long) for name in ("life", "layouts")))
Outcomes = Mapping[tuple[str, ...], BootResult]


def boot_group(kernel: str, group: str) -> BootResult:
    with TemporaryDirectory() as folder:
        return run(kernel, group, Path(folder))


def failures(result: BootResult) -> dict[str, str]:
    """What failed of a group's checks, by name."""
    assert result.files.get(REPORT), result.console
    report = json.loads(result.files[REPORT])
    assert report
    return {name: entry["detail"] for name, entry in report.items() if entry["detail"]}


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    return run_selected(request, ("kernel", "group"), boot_group)


@pytest.mark.long
@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_a_second_boot_puts_the_prefixes_in_force(kernel: str, tmp_path: Path) -> None:
    first = run(kernel, "before_a_reboot", tmp_path)
    assert first.ok, first.console
    assert not failures(first)
    kept = {PREFIXES.removeprefix("/"): first.files[PREFIXES]}
    second = run(kernel, "after_a_reboot", tmp_path, kept)
    assert second.ok, second.console
    assert not failures(second)
    # Without the file the same checks fail.
    assert failures(run(kernel, "after_a_reboot", tmp_path))


@pytest.mark.parametrize("kernel", EACH_KERNEL)
@pytest.mark.parametrize("group", GROUPS)
def test_each_check_of_the_group(outcomes: Outcomes, kernel: str, group: str) -> None:
    result = outcomes[kernel, group]
    for name in (WINNERS, COSTS):
        if name in result.files:
            print(json.dumps(json.loads(result.files[name]), indent=1))
    assert failures(result) == {}


@pytest.mark.parametrize("kernel", EACH_KERNEL)
@pytest.mark.parametrize("group", GROUPS)
def test_the_kernel_never_complains(outcomes: Outcomes, kernel: str, group: str) -> None:
    result = outcomes[kernel, group]
    assert result.ok, result.console
    assert not result.warnings
