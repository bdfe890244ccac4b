# SPDX-License-Identifier: Apache-2.0
"""The support bundle: whole, and without the addresses of peers."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.api_client import asker
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.control.bundle import bundle
from ltp_switcher.daemon.settings.schema import Config, DaemonSection
from ltp_switcher.errors import ControlError


def opened(archive: bytes) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            assert file is not None
            found[Path(entry.name).name] = file.read()
    return found


def test_over_http_and_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = tmp_path / "control.sock"
    section = DaemonSection(policy="keep", control_socket=str(socket), state_dir="", mode="advise")
    kernel = Kernel(flow(7, "198.51.100.77"), flow(8, "2001:db8:1:2::9"))
    with running(make_daemon(kernel, Config(daemon=section), monkeypatch)):
        answer = asker(socket)("GET", "/v1/support-bundle")
        target = tmp_path / "bundle.tar.gz"
        assert main(["bundle", str(target), "--socket", str(socket)]) == 0
        assert main(["bundle", str(target), "--socket", str(socket)]) == 2, "it is there already"
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/gzip"
    assert "ltp-switcher-support-" in answer.headers["content-disposition"]
    for files in (opened(answer.content), opened(target.read_bytes())):
        assert {"README", "machine.json", "status.json", "config.get.json", "flows.page.json"} <= files.keys()
        assert {one["remote"] for one in json.loads(files["flows.page.json"])["flows"]} == {
            "198.51.100.0/24",
            "2001:db8:1::/48",
        }
        everything = b"".join(files.values())
        assert b"198.51.100.77" not in everything
        assert b"2001:db8:1:2::9" not in everything
        assert not any(b'"error"' in content for content in files.values())


def test_a_refusal_is_kept_and_the_rest_is_there() -> None:
    def refuses(method: str, **_: object) -> dict[str, str]:
        if method == "metrics":
            raise ControlError("no metrics today")
        return {"method": method}

    files = opened(bundle(refuses))
    assert json.loads(files["metrics.json"]) == {"error": "no metrics today"}
    assert json.loads(files["status.json"]) == {"method": "status"}


@given(st.ip_addresses(), st.integers(1, 65535))
def test_no_address_gets_through(address: object, port: int) -> None:
    text = f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"
    files = opened(bundle(lambda *_, **__: {"deep": [{"remote": text, "local": text}]}))
    masked = json.loads(files["status.json"])["deep"][0]
    assert masked["remote"].endswith(("/24", "/48"))
    assert text not in files["status.json"].decode()
