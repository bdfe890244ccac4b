# SPDX-License-Identifier: Apache-2.0
"""The choice of OpenBLAS's kernels, from texts as /proc/cpuinfo has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ltp_switcher.blas import fastest

WIDE = "fpu sse2 avx avx2 fma avx512f avx512cd avx512bw avx512dq avx512vl"


def cpuinfo(vendor: str, family: str, flags: str) -> str:
    one = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 2\nflags\t\t: {flags}\n"
    return f"{one}\n{one.replace('processor	: 0', 'processor	: 1')}\n"


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (cpuinfo("AuthenticAMD", "26", WIDE), "SKYLAKEX"),
        # Half as wide inside: nothing to gain.
        (cpuinfo("AuthenticAMD", "25", WIDE), None),
        # OpenBLAS knows these.
        (cpuinfo("GenuineIntel", "26", WIDE), None),
        # As an emulator shows it: the kernels would be illegal instructions.
        (cpuinfo("AuthenticAMD", "26", WIDE.replace(" avx512dq", "")), None),
        (cpuinfo("AuthenticAMD", "26", "fpu sse2 avx avx2 fma"), None),
        ("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n", None),
        ("", None),
    ],
)
def test_only_processors_that_have_all_of_it_get_other_kernels(
    text: str, chosen: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    assert fastest({}, path) == ({"OPENBLAS_CORETYPE": chosen} if chosen else {})


def test_an_operators_choice_stays(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(cpuinfo("AuthenticAMD", "26", WIDE))
    assert fastest({"OPENBLAS_CORETYPE": "HASWELL"}, path) == {}
    assert fastest({}, tmp_path / "none") == {}
