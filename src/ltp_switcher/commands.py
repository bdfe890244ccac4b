# SPDX-License-Identifier: Apache-2.0
"""Common parts of the small programs (`python -m …`): numbers within limits, and errors in one line."""

from __future__ import annotations

import functools
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import Final

from ltp_switcher.errors import LtpSwitcherError

Main = Callable[[Sequence[str] | None], int]
Program = Callable[..., int]
"""A program's main function. If it gets no arguments, it reads the command line."""
_INTERRUPTED: Final = 130


def whole(low: int, high: int) -> Callable[[str], int]:
    """Make a `type` for argparse that accepts whole numbers from `low` to `high`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise ArgumentTypeError(f"{text!r} is not valid; allowed: {low} to {high}")
        return int(text)

    return parse


def seconds(low: float, high: float) -> Callable[[str], float]:
    """Make a `type` for argparse that accepts times from `low` to `high` seconds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        # NaN compares false with everything.
        if not low <= value <= high:
            raise ArgumentTypeError(f"{text!r} is not valid; allowed: {low:g} to {high:g} s")
        return value

    return parse


def printable(text: str) -> str:
    """Escape the control characters of an untrusted text, so that it cannot control the terminal.

    >>> printable("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text
    )


def program(name: str) -> Callable[[Main], Program]:
    """Decorate the main function of a program. A failure becomes one line on stderr and exit status 1. Ctrl-C
    becomes exit status 130.
    """

    def decorate(main: Main) -> Program:
        @functools.wraps(main)
        def run(arguments: Sequence[str] | None = None) -> int:
            try:
                return main(arguments)
            except LtpSwitcherError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
            except OSError as error:
                print(f"{name}: {error.filename}: {error.strerror}", file=sys.stderr)
                return 1
            except KeyboardInterrupt:
                print(f"{name}: interrupted", file=sys.stderr)
                return _INTERRUPTED

        return run

    return decorate
