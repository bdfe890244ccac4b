# SPDX-License-Identifier: Apache-2.0
"""The names that exist in the repository: files, make targets, programs, settings."""

from __future__ import annotations

import argparse
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Final

from ltp_switcher.daemon.settings.schema import schema

PACKAGE: Final = "ltp_switcher"
_TARGET: Final = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


@dataclass(frozen=True)
class House:
    """The names that a page may use.

    files: paths from the root. makefiles: the targets by the folder of the Makefile ("" for the root).
    programs: the command line of each program. settings: keys, as `section.key`.
    """

    files: frozenset[str]
    makefiles: Mapping[str, frozenset[str]]
    programs: Mapping[str, argparse.ArgumentParser]
    settings: frozenset[str]

    @classmethod
    def at(cls, root: Path) -> House:
        """The repository at `root`."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=root, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        files = frozenset(name for name in listed if (root / name).exists())
        makefiles = {
            str(PurePosixPath(name).parent).lstrip("."): frozenset(_TARGET.findall((root / name).read_text()))
            for name in files
            if PurePosixPath(name).name == "Makefile"
        }
        scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
        return cls(files, makefiles, dict(_programs(scripts)), frozenset(schema()))

    @cached_property
    def paths(self) -> frozenset[str]:
        """Files and folders, from the root."""
        folders = {str(parent) for name in self.files for parent in PurePosixPath(name).parents}
        return self.files | folders

    def has_module(self, dotted: str) -> bool:
        """Whether `ltp_switcher.a.b` is a module or a package."""
        inner = dotted.removeprefix(PACKAGE).strip(".").replace(".", "/")
        return not inner or any(
            f"{place}{inner}{end}" in self.files
            for place in ("", f"src/{PACKAGE}/")
            for end in (".py", "/__init__.py")
        )


def _programs(scripts: Mapping[str, str]) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, entry in scripts.items():
        module = import_module(entry.partition(":")[0])
        made = module.parser() if hasattr(module, "parser") else module._parser()
        if not isinstance(made, argparse.ArgumentParser):
            raise TypeError(f"{entry}: parser() makes no argparse.ArgumentParser")
        yield name, made
