# SPDX-License-Identifier: Apache-2.0
"""Temporary copies of the working tree, and pytest in them."""

from __future__ import annotations

import compileall
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ltp_switcher.cache import cache_dir
from ltp_switcher.policies.simulator.delivery_traces import traces_folder

SELECTED: Final = "not slow and not lab"
TEST_TIMEOUT_S: Final = 120
"""A single test that takes longer has hung; the longest takes 20 s on a busy machine."""
_MEMORY_BYTES: Final = 16 << 30
WITH_TORCH: Final = "tests/trainers/"
"""The tests that need PyTorch, and so another Python."""


@dataclass(frozen=True)
class Ended:
    """How pytest ended. status: its exit status, or None if it ran out of time or memory."""

    status: int | None
    output: str


def torch_tree() -> Path:
    """Folder in which `make torch` has unpacked PyTorch, or will."""
    return cache_dir() / "torch"


def parts(tests: Sequence[str]) -> list[list[str]]:
    """The tests of each Python, in the same order; PyTorch's last, and none where there is no PyTorch."""
    plain = [test for test in tests if not test.startswith(WITH_TORCH)]
    torch = [test for test in tests if test.startswith(WITH_TORCH)] if torch_tree().exists() else []
    return [part for part in (plain, torch) if part]


def files(root: Path) -> list[str]:
    """Return the files of the working tree, without the ignored ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    return [name for name in listed if name and os.path.lexists(root / name)]


@contextmanager
def working_copy(root: Path) -> Iterator[Path]:
    """Copy the working tree to a temporary folder, compiled; the tests may ask git for its files."""
    with tempfile.TemporaryDirectory(prefix="ltp-mutation-") as folder:
        copy = Path(folder).resolve()
        for name in files(root):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name, follow_symlinks=False)
        git = subprocess.run(
            ["git", "rev-parse", "--absolute-git-dir"], cwd=root, capture_output=True, text=True, check=True
        )
        (copy / ".git").write_text(f"gitdir: {git.stdout}")
        compileall.compile_dir(copy, quiet=2)
        yield copy


@contextmanager
def mutated_copy(base: Path, path: str, text: str) -> Iterator[Path]:
    """Copy a working copy, with another text for one file."""
    with tempfile.TemporaryDirectory(prefix="ltp-mutant-") as folder:
        copy = Path(folder).resolve() / "tree"
        shutil.copytree(base, copy, symlinks=True)
        target = copy / path
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            compiled.unlink()
        target.write_text(text)
        yield copy


def pytest(
    copy: Path,
    tests: Sequence[str],
    limit_s: float,
    options: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> Ended:
    """Run pytest in a copy of the tree.

    Args:
        copy: the copy.
        tests: files or tests, in this order; one of `parts`.
        limit_s: CPU seconds that it may take. A machine may be busy, so the clock may run four times as long.
        options: of pytest.
        more: environment variables to add.
    """
    python = ".ci/python-torch" if tests[0].startswith(WITH_TORCH) else sys.executable
    process = subprocess.Popen(
        [
            python, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-m", SELECTED,
            "-o", f"faulthandler_timeout={TEST_TIMEOUT_S}", "-o", "faulthandler_exit_on_timeout=true",
            *options, *tests,
        ],
        cwd=copy, env=_environment(copy, more or {}), start_new_session=True, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 5))
    resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        output, _ = process.communicate(timeout=60 + 4 * limit_s)
        status = process.returncode
        return Ended(status if status >= 0 else None, output)
    except subprocess.TimeoutExpired:
        return Ended(None, "")
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End the session: pytest, and what its tests started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _environment(copy: Path, more: Mapping[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{copy / 'src'}:{copy / 'tests'}",
        "LTP_TRACES": str(traces_folder()),
        "LTP_CACHE": str(copy / ".cache"),
        "LTP_TORCH": str(torch_tree()),
        # As many copies run as there are processors.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **more,
    }
