#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes everything that follows from mutant.yaml, records.yaml and policies/<arm>/arm.toml.

Without arguments the files are brought up to date. With `--check` nothing is written. If a file differs
from its sources, a diff is printed and the exit status is 1.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from netlink_gen.emit_c import emit_arms, emit_kernel_header, emit_kernel_source, emit_uapi
from netlink_gen.emit_docs import emit_docs
from netlink_gen.emit_python import emit_python
from netlink_gen.spec import Contract

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.runtime.declaration import declarations

REPOSITORY = Path(__file__).resolve().parents[2]


def outputs(root: Path) -> Mapping[Path, str]:
    """Return the text of every generated file by its path in the repository."""
    module = Path("kmod-mutant")
    contract = Contract(root / module / "mutant.yaml", root / module / "records.yaml")
    arms_header, arms_source = emit_arms(contract, declarations(root / "policies"))
    return {
        module / "mutant_arms_gen.h": arms_header,
        module / "mutant_arms_gen.c": arms_source,
        module / "include/uapi/linux/mutant.h": emit_uapi(contract),
        module / "mutant_nl_gen.h": emit_kernel_header(contract),
        module / "mutant_nl_gen.c": emit_kernel_source(contract),
        Path("daemon/datapath/protocol.py"): emit_python(contract),
        Path("docs/netlink.md"): emit_docs(contract),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The exit status is 1 if `--check` finds a difference, 2 if the contract is not valid,
    and 0 otherwise.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file has drifted")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help="the repository (default: this one)")
    options = parser.parse_args(arguments)
    try:
        wanted = outputs(options.root)
    except InvalidValueError as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 2
    drifted = False
    for name, text in wanted.items():
        path = options.root / name
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if current == text:
            continue
        drifted = True
        if options.check:
            old, new = current.splitlines(keepends=True), text.splitlines(keepends=True)
            sys.stdout.writelines(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return int(drifted and options.check)


if __name__ == "__main__":
    sys.exit(main())
