# SPDX-License-Identifier: Apache-2.0
"""A rollout over HTTP: begun, shown, aborted, and told of as an event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.api_client import Ask, asker
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.settings.schema import Config, DaemonSection


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """The API before a daemon that keeps its state."""
    path = tmp_path / "control.sock"
    section = DaemonSection(policy="keep", control_socket=str(path), state_dir=str(tmp_path), mode="advise")
    daemon = make_daemon(Kernel(flow(1)), Config(daemon=section), monkeypatch)
    with running(daemon):
        yield asker(path)
    daemon.rollouts.close()
    daemon.engine.close()


def test_a_rollout_begins_and_is_aborted(ask: Ask) -> None:
    assert ask("GET", "/v1/rollout").json() == {"state": "none", "reason": "", "rollout": None}
    refused = ask("DELETE", "/v1/rollout")
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (409, "refused")
    begun = ask("POST", "/v1/rollout", json={})
    assert begun.status_code == 202
    told = begun.json()
    assert (told["state"], told["reason"]) == ("running", "")
    found = told["rollout"]
    assert (found["units"], found["stage"], found["share"], found["baseline_arm"]) == (
        "blocks",
        1,
        0.05,
        "cubic",
    )
    assert found["stages"] == [0.05, 0.2, 0.5, 1.0]
    assert found["must_exclude"] == pytest.approx(-0.25)
    assert (found["lower"], found["upper"], found["detect_s"], found["ended"]) == (None, None, None, None)
    assert ask("GET", "/v1/mode").json() == {"mode": "active"}
    again = ask("POST", "/v1/rollout", json={"units": "prefixes"})
    assert again.status_code == 409
    assert "rollout abort" in again.json()["detail"]
    ended = ask("DELETE", "/v1/rollout").json()
    assert ended["state"] == "aborted"
    assert ended["rollout"]["ended"] >= ended["rollout"]["began"]
    assert ask("GET", "/v1/mode").json() == {"mode": "advise"}
    assert [change["what"] for change in ask("GET", "/v1/changes").json()["changes"]] == [
        "rollout", "daemon.mode", "rollout", "daemon.mode",
    ]  # fmt: skip


def test_units_that_there_are_not_are_refused(ask: Ask) -> None:
    refused = ask("POST", "/v1/rollout", json={"units": "flows"})
    assert (refused.status_code, refused.json()["field"]) == (422, "units")


def test_metrics_tell_the_state(ask: Ask) -> None:
    ask("POST", "/v1/rollout", json={"units": "prefixes"})
    lines = ask("GET", "/metrics").text.splitlines()
    assert 'ltp_switcher_rollout{state="running"} 1.0' in lines
    assert "ltp_switcher_rollout_share 0.05" in lines
    assert not [line for line in lines if line.startswith("ltp_switcher_rollout_lower ")], "nothing is proven"
