# SPDX-License-Identifier: Apache-2.0
"""The small programs' common parts: limits of numbers, and the end of an error."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.commands import program, seconds, whole
from ltp_switcher.errors import ConfigError


@given(st.integers())
def test_whole_numbers_within_limits_alone(number: int) -> None:
    if 2 <= number <= 50:
        assert whole(2, 50)(str(number)) == number
    else:
        with pytest.raises(argparse.ArgumentTypeError, match="allowed: 2 to 50"):
            whole(2, 50)(str(number))


@pytest.mark.parametrize("text", ["", "x", "1.5", "٣", "0x10"])
def test_what_is_no_number_is_named(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not valid; allowed"):
        whole(0, 100)(text)


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "x", "3601"])
def test_times_have_limits(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"allowed: 0\.1 to 3600 s"):
        seconds(0.1, 3600)(text)
    assert seconds(0.1, 3600)("2.5") == 2.5


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (ConfigError("k", 0, "1 to 9"), 1, "k"),
        (FileNotFoundError(2, "No such file", "/there"), 1, "/there: No such file"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_program_ends_in_a_line(
    raised: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @program("judge")
    def main(arguments: Sequence[str] | None) -> int:
        raise raised

    assert main() == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("judge: ")
    assert said in line
