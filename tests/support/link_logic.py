# SPDX-License-Identifier: Apache-2.0
"""The link module's pure logic, in user space."""

import subprocess
from pathlib import Path

from ltp_switcher.cache import REPOSITORY

LINK = REPOSITORY / "eval" / "lab" / "link"


def build_driver(source: Path, folder: Path) -> Path:
    """Build a program of one source, which uses the link's headers, under ASan and UBSan into `folder`."""
    program = folder / "driver"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    subprocess.run(["gcc", *flags, f"-I{LINK}", "-o", str(program), str(source)], check=True)
    return program
