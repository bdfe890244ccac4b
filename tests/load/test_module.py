# SPDX-License-Identifier: Apache-2.0
"""The stand-in for the module, read by the daemon's own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.records import record

from load.module import CHURN_STEPS, Module
from load.stream import Stream
from ltp_switcher.daemon.datapath import Datapath, FlowNotFoundError, netlink, protocol
from ltp_switcher.daemon.datapath.commands import commands_for

FLOWS, STEPS = 120, 20


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """Flows of two kinds, of which the second reports in every other step alone."""
    rows = [
        (step, record(kind, delivered=kind, total_delivered=(step + 1) * kind, arm=3))
        for step in range(STEPS)
        for kind in (1, 2)
        if kind == 1 or step % 2
    ]
    np.save(tmp_path / "recording.npy", np.concatenate([made for _, made in rows]))
    np.save(tmp_path / "recording.steps.npy", np.array([step for step, _ in rows], np.uint32))
    return Stream(tmp_path / "recording.npy", FLOWS, seed=1)


@pytest.fixture
def module(stream: Stream) -> Module:
    return Module(stream, churn=3)


@pytest.fixture
def datapath(module: Module, monkeypatch: pytest.MonkeyPatch) -> Iterator[Datapath]:
    monkeypatch.setattr(netlink, "open_socket", module.socket)
    with Datapath() as made:
        yield made


def test_it_tells_whatever_the_daemon_asks_for_at_its_start(datapath: Datapath) -> None:
    assert datapath.config().flows_max > FLOWS
    assert datapath.flow_counts().flows == FLOWS
    assert datapath.resume_counts().jumps == 0
    datapath.open_session(outcomes_max=10)
    assert datapath.outcomes().outcomes.size == 0


def test_a_flow_obeys_commands_and_its_totals_only_rise(datapath: Datapath, stream: Stream) -> None:
    datapath.open_session()
    totals = dict.fromkeys(stream.cookie.tolist(), 0)
    for step in range(3 * STEPS):
        records = datapath.close_step()
        assert FLOWS / 2 < len(records) <= FLOWS
        for cookie, total in zip(
            records["cookie"].tolist(), records["total_delivered"].tolist(), strict=True
        ):
            assert total > totals.get(cookie, 0)
            totals[cookie] = total
        if step == 0:
            wanted = np.full(len(records), int(protocol.ArmId.VEGAS), np.uint8)
            assert datapath.select(commands_for(records, wanted)).applied == len(records)
            told = set(records["cookie"].tolist())
        elif step == 3:
            mine = np.isin(records["cookie"], list(told))
            assert set(records["arm"][mine].tolist()) == {int(protocol.ArmId.VEGAS)}
            assert set(records["epoch"][mine].tolist()) == {1}


def test_the_module_tells_its_flows(datapath: Datapath) -> None:
    counts = datapath.flow_counts()
    assert (counts.flows, counts.refused) == (FLOWS, 0)


def test_flows_end_and_begin(datapath: Datapath) -> None:
    events = datapath.events()
    for _ in range(CHURN_STEPS):
        datapath.close_step()
    kinds = [(event.kind, event.flow.cookie) for event in events.read().events]
    assert [kind for kind, _ in kinds] == [protocol.Cmd.FLOW_DEATH, protocol.Cmd.FLOW_BIRTH] * 3
    cookies = {flow.cookie for flow in datapath.flows()}
    assert len(cookies) == FLOWS
    for kind, cookie in kinds:
        assert (cookie in cookies) == (kind == protocol.Cmd.FLOW_BIRTH)
    events.close()


def test_a_pinned_flow_refuses_commands(datapath: Datapath, stream: Stream) -> None:
    cookie = int(stream.cookie[0])
    datapath.pin(cookie, int(protocol.ArmId.BBR))
    records = datapath.close_step()
    while cookie not in records["cookie"]:
        records = datapath.close_step()
    command = np.zeros(1, protocol.COMMAND_DTYPE)
    command["cookie"], command["arm"] = cookie, protocol.ArmId.VEGAS
    assert datapath.select(command).refused == 1
    assert int(datapath.flow(cookie).record["arm"][0]) == protocol.ArmId.BBR
    datapath.unpin(cookie)
    with pytest.raises(FlowNotFoundError):
        datapath.pin(7, 1)
