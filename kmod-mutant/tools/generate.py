#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes everything that follows from the netlink contract (mutant.yaml and records.yaml).

Without arguments the files are brought up to date. With `--check` nothing is written: a diff is
printed and the exit status is 1 where a file has drifted from the contract.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from netlink_gen.emit_docs import emit_docs
from netlink_gen.emit_kernel import emit_kernel_header, emit_kernel_source
from netlink_gen.emit_python import emit_python
from netlink_gen.emit_uapi import emit_uapi
from netlink_gen.load import load

from ltp_switcher.errors import InvalidValueError

REPOSITORY = Path(__file__).resolve().parents[2]


def outputs(spec: Path, records: Path) -> Mapping[str, str]:
    """Return the text of every generated file by its path in the repository."""
    contract = load(spec, records)
    return {
        "kmod-mutant/include/uapi/linux/mutant.h": emit_uapi(contract),
        "kmod-mutant/mutant_nl_gen.h": emit_kernel_header(contract),
        "kmod-mutant/mutant_nl_gen.c": emit_kernel_source(contract),
        "daemon/datapath/protocol.py": emit_python(contract),
        "docs/netlink.md": emit_docs(contract),
    }


def drift(root: Path, wanted: Mapping[str, str]) -> str:
    """Return a unified diff from the files under `root` to the right ones; empty when equal."""
    found: list[str] = []
    for name, text in wanted.items():
        path = root / name
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        found += difflib.unified_diff(
            current.splitlines(keepends=True), text.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    return "".join(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0, 1 on drift, 2 on a contract that is not valid."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file has drifted")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help="the repository (default: this one)")
    options = parser.parse_args(arguments)
    root: Path = options.root
    try:
        wanted = outputs(root / "kmod-mutant/mutant.yaml", root / "kmod-mutant/records.yaml")
    except InvalidValueError as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 2
    if options.check:
        difference = drift(root, wanted)
        sys.stdout.write(difference)
        return 1 if difference else 0
    for name, text in wanted.items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
