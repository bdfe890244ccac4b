# SPDX-License-Identifier: Apache-2.0
"""A support bundle: one archive of all that a maintainer needs first. Flows' addresses are cut to their
prefixes.
"""

from __future__ import annotations

import io
import ipaddress
import json
import platform
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import ltp_switcher
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.errors import LtpSwitcherError

FLOWS_MAX: Final = 100
_CALLS: Final[Mapping[str, Mapping[str, Json]]] = {
    "status": {}, "version": {}, "config.get": {}, "changes.list": {"limit": 100}, "arms.list": {},
    "pool.get": {}, "policies.get": {}, "mpts.status": {}, "rollout.get": {}, "metrics": {}, "history": {},
    "events": {"since": 0}, "flows.page": {"limit": FLOWS_MAX, "order": "goodput"},
}  # fmt: skip
"""The parameters of each request to the daemon, by control method."""
_ADDRESSES: Final = ("local", "remote")
_PREFIX_BITS: Final = {4: 24, 6: 48}
_README: Final = """\
Support bundle of ltp-switcher. Each file is one answer of the daemon, or of this machine.
Addresses of flows are cut to their /24 or /48. Settings, policies and prefixes are whole: read them before
you pass this on.
"""


def bundle(call: Callable[..., Json]) -> bytes:
    """Return a .tar.gz archive of the daemon's answers.

    `call` is the method `ControlClient.call`, or a function like it. If the daemon refuses a request, the
    archive has the text of the refusal.
    """
    files = {"README": _README.encode(), "machine.json": _json(_machine())}
    for method, params in _CALLS.items():
        try:
            answer = _masked(call(method, **params))
        except LtpSwitcherError as error:
            answer = {"error": str(error)}
        files[f"{method}.json"] = _json(answer)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"ltp-switcher-support/{name}")
            entry.size, entry.mtime = len(content), int(time.time())
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def file_name() -> str:
    """A file name for an archive that is made now, with the present time in UTC."""
    return time.strftime("ltp-switcher-support-%Y%m%d-%H%M%S.tar.gz", time.gmtime())


def _json(value: Json) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


def _machine() -> Json:
    parameters = Path("/sys/module/tcp_mutant/parameters")
    return {
        "ltp_switcher": ltp_switcher.__version__,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "distribution": _text(Path("/etc/os-release")),
        "module": {path.name: _text(path) for path in sorted(parameters.glob("*"))},
        "default_congestion_control": _text(Path("/proc/sys/net/ipv4/tcp_congestion_control")),
        "available_congestion_controls": _text(Path("/proc/sys/net/ipv4/tcp_available_congestion_control")),
    }


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _masked(value: Json) -> Json:
    """Cut flows' addresses to their prefixes, at any depth."""
    if isinstance(value, list):
        return [_masked(one) for one in value]
    if isinstance(value, dict):
        made = {key: _masked(one) for key, one in value.items()}
        return made | {
            key: _prefix(cast("str", made[key])) for key in _ADDRESSES if isinstance(made.get(key), str)
        }
    return value


def _prefix(endpoint: str) -> str:
    """The prefix of an address with a port, such as 192.0.2.7:443 or [2001:db8::1]:443."""
    host = endpoint.rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "unknown"
    return str(ipaddress.ip_network((address, _PREFIX_BITS[address.version]), strict=False))
