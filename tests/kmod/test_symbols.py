# SPDX-License-Identifier: Apache-2.0
"""The module needs only symbols that the kernel exports: stable updates have withdrawn some before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.module_lab import KERNELS, REPOSITORY

from ltp_switcher.eval.lab.kernels import Kernel, kernel
from ltp_switcher.eval.lab.layers import mutant_module

pytestmark = pytest.mark.lab


def exported(symvers: str) -> dict[str, str]:
    """The symbols of a Module.symvers, and how each is exported: EXPORT_SYMBOL or EXPORT_SYMBOL_GPL."""
    rows = [line.split("\t") for line in symvers.splitlines()]
    return {row[1]: row[3] for row in rows}


def symvers(chosen: Kernel) -> str:
    """The kernel's Module.symvers, from the headers that our modules are built against."""
    if chosen.built is not None:
        return (chosen.built / "Module.symvers").read_text()
    return Path(f"/lib/modules/{chosen.release}/build/Module.symvers").read_text()


def imported(module: Path) -> set[str]:
    done = subprocess.run(["nm", "--undefined-only", module], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines()}


@pytest.fixture(params=KERNELS)
def chosen(request: pytest.FixtureRequest) -> Kernel:
    return kernel(str(request.param))


def test_every_imported_symbol_is_exported(chosen: Kernel) -> None:
    known = exported(symvers(chosen))
    wanted = imported(mutant_module(chosen, REPOSITORY))
    assert len(wanted) > 50
    missing = {symbol for symbol in wanted if symbol not in known}
    assert not missing, f"{chosen.release} does not export {', '.join(sorted(missing))}"


def test_a_withdrawn_export_is_noticed(chosen: Kernel) -> None:
    lines = symvers(chosen).splitlines()
    left = "\n".join(line for line in lines if "\ttcp_register_congestion_control\t" not in line)
    assert (
        "tcp_register_congestion_control"
        in imported(mutant_module(chosen, REPOSITORY)) - exported(left).keys()
    )
