# SPDX-License-Identifier: Apache-2.0
"""An upgrade from a version that copied routes removes these, and no others, in a namespace of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

POSTINST = Path(__file__).resolve().parents[2] / "packaging/debian/ltp-switcher.postinst"
SCRIPT = """
set -e
ip link add up0 type dummy 2>/dev/null || ip link add up0 type veth peer name up1
ip link set up0 up
ip address add 192.0.2.2/24 dev up0
ip -6 address add 2001:db8:1::2/64 dev up0 nodad
ip route add default via 192.0.2.1
ip route add 198.51.100.0/24 via 192.0.2.9 proto 110
ip -6 route add 2001:db8:f::/48 via 2001:db8:1::1
show() { ip -4 route show table all; ip -6 route show table all; ip rule; }
show >"$1/before"
ip route add 203.0.113.0/24 via 192.0.2.1 proto 109 congctl reno
ip -6 route add 2001:db8:cafe::/48 via 2001:db8:1::1 proto 109
sh "$1/postinst" configure "$2"
show >"$1/after"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a network namespace of its own")
@pytest.mark.parametrize(("earlier", "cleared"), [("0.0.9+deb12u1", True), ("", False)])
def test_our_routes_go_and_all_others_stay(tmp_path: Path, earlier: str, cleared: bool) -> None:
    (tmp_path / "postinst").write_text(POSTINST.read_text())
    told = tmp_path / "told"
    for name in ("deb-systemd-invoke", "deb-systemd-helper"):
        stub = tmp_path / "bin" / name
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f'#!/bin/sh\necho {name} "$@" >>{told}\n')
        stub.chmod(0o755)
    path = f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    command = ["unshare", "--net", "sh", "-c", SCRIPT, "sh", str(tmp_path), earlier]
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = ((tmp_path / name).read_text() for name in ("before", "after"))
    assert (before == after) == cleared
    assert ("proto 109" in after) != cleared
    if cleared:
        assert "purge ltp-switcher-routes.path" in told.read_text()
