# SPDX-License-Identifier: Apache-2.0
"""A guest with the lab's link and traffic, for scripts that drive the daemon themselves."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ltp_switcher.eval.lab import BootResult, boot, kernels
from ltp_switcher.eval.lab.layers import GUEST, compiled, link_module
from ltp_switcher.eval.lab.schedule import encode
from ltp_switcher.eval.run.scenario import load_scenario
from support import chance

SCENARIO = """
name = "daemon-test"
duration_s = 60
[link]
rate_mbps = 12.0
rtt_ms = 20.0
buffer_bdp = 4.0
[[flow]]
scheme = "switcher"
start_s = 0.0
stop_s = 60.0
"""

# `traffic N SECONDS`: N flows under mutant for that long, a tenth of a second apart lest one lose its whole
# first window to the others and wait for its RTO; leaves the process's id in $traffic.
PREAMBLE = """
set -e
. /lab/network
insmod /lib/mutant/tcp_mutant.ko
switcher() { python3 -m ltp_switcher.daemon.cli "$@"; }
traffic() {
    rm -f /run/flows; i=0
    while [ $i -lt $1 ]; do echo "mutant - ${i}00000 $(($2 * 1000000)) $i" >>/run/flows; i=$((i + 1)); done
    /lab/bin/traffic /lab/schedule /run/flows $(($2 * 1000)) /run/lab/traffic &
    traffic=$!
}
"""


def boot_with_daemon(
    script: str,
    tmp_path: Path,
    *,
    config: str = "",
    kernel: str = "6.1",
    scenario: str = SCENARIO,
    overlay: Mapping[str, Path | bytes] | None = None,
    collect: Sequence[str] = (),
    on_line: Callable[[str], None] | None = None,
    python: bool | Literal["service"] = True,
) -> BootResult:
    """Boot, define `traffic` and `switcher`, and run `script`; `config` is in /lab/daemon.toml."""
    file = tmp_path / "scenario.toml"
    file.write_text(scenario)
    files: dict[str, Path | bytes] = {
        "lab/guest_waits.py": Path(__file__).with_name("guest_waits.py"),
        "lab/link.ko": link_module(kernels.kernel(kernel)),
        "lab/schedule": encode(load_scenario(file), None, 1),
        "lab/bin/traffic": compiled(GUEST / "traffic"),
        "lab/network": GUEST / "network",
        "lab/daemon.toml": config.encode(),
        **(overlay or {}),
    }
    result = boot(
        kernel=kernel, script=PREAMBLE + chance.SCRIPT + script, overlay=files,
        collect=[*collect, "/run/lab/daemon.log"], python=python, on_line=on_line, timeout_s=500,
    )  # fmt: skip
    # pytest shows these where a test fails.
    print(result.console)
    print(result.files.get("/run/lab/daemon.log", b"").decode())
    return result
