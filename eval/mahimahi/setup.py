# SPDX-License-Identifier: Apache-2.0
"""The parts that a run through mahimahi needs on the host: fetched, built, and checked for."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ltp_switcher.cache import cache_dir
from ltp_switcher.errors import EmulationError, LabError
from ltp_switcher.eval.lab.layers import GUEST, LINK, digest
from ltp_switcher.eval.lab.other_suite import unpack
from ltp_switcher.eval.lab.packages import building, locked, run, say
from ltp_switcher.eval.lab.recorded_traces import SUITE

PACKAGE: Final = "mahimahi"
SHELLS: Final = ("mm-link", "mm-loss", "mm-delay")
HOST: Final = Path(__file__).resolve().parent / "host"
FIX: Final = "make mahimahi"
_HINT: Final = "Check that this machine reaches its Debian mirror."
_CFLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s")
_LICENCE: Final = Path("usr/share/doc") / PACKAGE / "copyright"
# mahimahi itself calls the first two by these paths.
_FILES: Final = {
    "/usr/sbin/iptables": FIX,
    "/usr/sbin/dnsmasq": FIX,
    "/dev/net/tun": "modprobe tun",
}
_COMMANDS: Final = {
    "gcc": "apt-get install gcc libc6-dev",
    "ip": "apt-get install iproute2",
    "nsenter": "apt-get install util-linux",
    "setpriv": "apt-get install util-linux",
    "sysctl": "apt-get install procps",
    "unshare": "apt-get install util-linux",
}
_NAT: Final = ("-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE", "-m", "connmark", "--mark", "1")
"""Rule of iptables that is like the rules of mahimahi's shells."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A fault of this machine that keeps mahimahi from running, and the command that mends it."""

    what: str
    remedy: str

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return asdict(self)


def shells_folder() -> Path:
    """Folder of mahimahi's unpacked programs."""
    return cache_dir() / PACKAGE


def fetch_shells() -> Path:
    """Return the folder of mahimahi's shells; fetch and unpack the package first if they are not there.

    Raises:
        LabError: the package cannot be fetched.
    """
    folder = shells_folder()
    with locked(PACKAGE):
        if not folder.is_dir():
            say(f"mahimahi: fetching it from Debian's suite {SUITE}")
            with building(folder) as scratch, tempfile.TemporaryDirectory(dir=folder.parent) as private:
                files = unpack(SUITE, (PACKAGE,), Path(private), _HINT)
                for shell in SHELLS:
                    # The shell is set-user-ID only in a run's own mount namespace.
                    shutil.copyfile(files / "usr/bin" / shell, scratch / shell)
                    (scratch / shell).chmod(0o755)
                shutil.copyfile(files / _LICENCE, scratch / "copyright")
    return folder


def find_missing() -> list[Missing]:
    """Return all that keeps mahimahi from running here."""
    return list(_missing())


def _missing() -> Iterator[Missing]:
    if os.geteuid() != 0:
        yield Missing("the rights of root, to make namespaces", "sudo -E ltp-eval ...")
    for path, remedy in _FILES.items():
        if not Path(path).exists():
            yield Missing(path, remedy)
    for command, remedy in _COMMANDS.items():
        if shutil.which(command) is None:
            yield Missing(f"the program {command}", remedy)
    for shell in SHELLS:
        program = shells_folder() / shell
        if not program.is_file():
            yield Missing(f"mahimahi's {shell}", FIX)
        else:
            for library in missing_libraries(run(["ldd", str(program)])):
                yield Missing(f"the library {library} of {shell}", FIX)
    if os.geteuid() == 0 and shutil.which("unshare") and Path("/usr/sbin/iptables").exists():
        try:
            run(["unshare", "--net", "/usr/sbin/iptables", *_NAT])
        except LabError as error:
            reason = str(error).splitlines()[-1]
            yield Missing(
                f"address translation in a network namespace ({reason})",
                "modprobe nft_chain_nat xt_MASQUERADE",
            )


def missing_libraries(output: str) -> list[str]:
    """Return the libraries that `ldd` did not find."""
    return [line.split()[0] for line in output.splitlines() if line.rstrip().endswith("not found")]


def programs() -> Path:
    """Return the folder with all programs of a run, ours built if their sources are new.

    Raises:
        EmulationError: something is missing; the message has a line for each, with its remedy.
    """
    missing = find_missing()
    if missing:
        lines = "\n".join(f"- {one.what} is missing: `{one.remedy}`" for one in missing)
        raise EmulationError(f"mahimahi cannot run here:\n{lines}")
    folder = shells_folder() / f"programs-{programs_digest()[:20]}"
    with locked("mahimahi-programs"):
        if not folder.is_dir():
            traffic = [str(path) for path in sorted((GUEST / "traffic").glob("*.c"))]
            header = f'-DPATH_HEADER="{HOST / "path.h"}"'
            with building(folder) as scratch:
                _compile(scratch / "traffic", [header, *traffic])
                for name in ("forward", "iptables"):
                    _compile(scratch / name, [str(HOST / f"{name}.c")])
                for shell in SHELLS:
                    shutil.copy(shells_folder() / shell, scratch / shell)
                shutil.copy(HOST / "session", scratch / "session")
    return folder


def programs_digest() -> str:
    """Return a hash of our programs' sources and of the shells.

    Raises:
        LabError: mahimahi is not unpacked.
    """
    sources = [*(GUEST / "traffic").iterdir(), *LINK.glob("*.h"), *HOST.iterdir()]
    files = [*sorted(sources), *(shells_folder() / shell for shell in SHELLS)]
    return hashlib.sha256("".join(map(digest, files)).encode()).hexdigest()


def _compile(target: Path, arguments: list[str]) -> None:
    run(["gcc", *_CFLAGS, "-o", str(target), *arguments], hint="Install gcc and libc6-dev.")
