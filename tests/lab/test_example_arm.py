# SPDX-License-Identifier: Apache-2.0
"""The example of docs/adding-an-arm.md, step by step in a copy of the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ltp_switcher.cache import REPOSITORY, cache_dir

EXAMPLE = REPOSITORY / "docs/examples/ledbat"
PAGE = (REPOSITORY / "docs/adding-an-arm.md").read_text()
SCENARIO = """
name = "example-arm"
duration_s = 10
[link]
rate_mbps = 12.0
rtt_ms = 20.0
buffer_bdp = 6.0
[[flow]]
scheme = "ledbat"
"""
"""A buffer of 120 ms: reno, which an arm without controls runs, would fill it."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository with the example's folder, its line of the netlink spec, and all that follows."""
    root = tmp_path / "copy"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in listed:
        if name and os.path.lexists(REPOSITORY / name):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, root / name, follow_symlinks=False)
    shutil.copytree(EXAMPLE, root / "policies/ledbat")
    spec = root / "kmod-mutant/mutant.yaml"
    text = spec.read_text()
    assert text.count("      - owl\n") == 1
    spec.write_text(text.replace("      - owl\n", "      - owl\n      - ledbat\n"))
    made = run(root, "kmod-mutant/tools/generate.py")
    assert made.returncode == 0, made.stderr
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy's package."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "LTP_CACHE": str(cache_dir())}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_the_page_shows_the_files_as_they_are() -> None:
    shown = dict(re.findall(r"^```(python|toml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    assert shown["python"] == (EXAMPLE / "__init__.py").read_text()
    assert shown["toml"] == (EXAMPLE / "arm.toml").read_text()


def test_the_arm_conforms(copy: Path) -> None:
    suite = run(copy, "-m", "pytest", "-q", "-k", "ledbat", "tests/policies/test_conformance.py")
    assert suite.returncode == 0, suite.stdout
    assert re.search(r"^[1-9]\d* passed", suite.stdout, re.MULTILINE), suite.stdout
    assert run(copy, "kmod-mutant/tools/generate.py", "--check").returncode == 0


@pytest.mark.lab
@pytest.mark.long
def test_a_flow_runs_on_the_arm(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "example.toml").write_text(SCENARIO)
    program = "from ltp_switcher.eval.cli.main import main; raise SystemExit(main())"
    out = tmp_path / "out"
    ended = run(copy, "-c", program, "run", str(tmp_path / "example.toml"), "--kernel", "6.12", "--no-cache",
                "--out", str(out))  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (flow,) = json.loads((out / "summary.json").read_text())["flows"]
    print(flow)
    assert flow["arm_share"] == {"ledbat": 1.0}
    assert flow["throughput_mbps"] > 0.85 * 12.0
    # Twenty milliseconds of queue, as the policy wants.
    assert 35.0 < flow["rtt_mean_ms"] < 50.0
    assert flow["loss"] == 0.0
