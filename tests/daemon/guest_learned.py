# SPDX-License-Identifier: Apache-2.0
"""Runs inside the guest: the real daemon with policies made for this test, and checks of their effect.

`daemon ARGUMENTS` is the daemon's command line. A test policy takes the place of each learned arm, and asks
for the effect that its flows are to show. The other words are checks.
"""

import sys
import time
from types import SimpleNamespace

import numpy as np
from guest_waits import until, until_it_falls_back, until_it_moves

from ltp_switcher.daemon.control.client import ControlClient, ControlRefusedError, Json
from ltp_switcher.daemon.datapath import Datapath, protocol
from ltp_switcher.daemon.steer import arms
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval

WINDOW_PKTS = 23.0
JURY_PKTS = 12.0
CLIENT = ControlClient("/run/ltp-switcher/control.sock")


class Asking:
    """An arm that asks for the same each time."""

    interval_s = 0.030

    def __init__(self, law: Law, *parameters: float) -> None:
        self.law = law
        self._parameters = parameters

    def begin(self, slots: np.ndarray, window_pkts: np.ndarray) -> None:
        assert (window_pkts > 0).all()

    def decide(self, slots: np.ndarray, interval: Interval) -> np.ndarray:
        assert np.isfinite(interval.rtt_s).all()
        # 30 ms, but for a decision half a step of 10 ms late and the next half a step early.
        assert 0.019 < interval.length_s < 0.1, interval.length_s
        return np.tile(self._parameters, (slots.size, 1))


POLICIES = {
    "ltp": Asking(Law.WINDOW, WINDOW_PKTS),
    "jury": Asking(Law.WINDOW, JURY_PKTS),
    "spine": Asking(Law.AIMD, 0.05, 0.1, 0.2, 0.7),
}


def daemon() -> None:
    arms.missing_weights = lambda name, _: None if name in POLICIES else "not in this test"
    arms.import_module = lambda name: SimpleNamespace(
        make_arm=lambda *_, **__: POLICIES[name.rpartition(".")[2]]
    )
    from ltp_switcher.daemon.cli.main import main

    sys.exit(main(sys.argv[2:]))


def flows() -> dict[str, dict[str, Json]]:
    return {flow["cookie"]: flow for flow in CLIENT.call("flows.list")}


def driven() -> None:
    """Flows obey the windows that they are sent, follow a switch between learned arms, and back."""
    states = {arm["name"]: arm["state"] for arm in CLIENT.call("arms.list")}
    assert [states[name] for name in ("ltp", "jury", "spine", "owl")] == ["available"] * 3 + ["unavailable"]
    first = flows()
    assert len(first) == 2
    assert {flow["arm"] for flow in first.values()} == {"ltp"}
    assert {flow["cwnd_pkts"] for flow in first.values()} == {WINDOW_PKTS}
    for arm, window in (("jury", JURY_PKTS), ("spine", None), ("bbr", None), ("ltp", WINDOW_PKTS)):
        cookie = next(iter(first))
        CLIENT.call("pin", cookie=cookie, arm=arm)
        until(lambda cookie=cookie, arm=arm: flows()[cookie]["arm"] == arm, flows)
        time.sleep(0.5)
        if window is not None:
            until(lambda cookie=cookie, window=window: flows()[cookie]["cwnd_pkts"] == window, flows)
        assert flows()[cookie]["acked_bytes"] > first[cookie]["acked_bytes"]
    metrics = {family["name"]: family["samples"] for family in CLIENT.call("metrics")}
    status = CLIENT.call("status")
    print(status["learned"])
    for arm in POLICIES:
        done = status["learned"][arm]
        assert 0 < done["controls"] <= done["decisions"]
        assert done["intervals"] <= done["decisions"]
    controls = {s["labels"]["result"]: s["value"] for s in metrics["ltp_switcher_controls"]}
    print(controls)
    assert controls["refused"] == controls["unknown"] == 0
    sent = sum(done["controls"] for done in status["learned"].values())
    assert sent - 10 < controls["applied"] <= sent


def advised() -> None:
    """In the mode advise nobody controls: who runs a learned arm goes to the fallback arm, pinned or not."""
    pinned = next(iter(flows()))
    CLIENT.call("mode.set", mode="advise")
    until(lambda: {flow["arm"] for flow in flows().values()} == {"cubic"}, flows)
    assert [cookie for cookie, flow in flows().items() if flow["pinned"]] == [pinned]
    refusal = ""
    try:
        CLIENT.call("pin", cookie=pinned, arm="ltp")
    except ControlRefusedError as error:
        refusal = str(error)
    assert "mode active" in refusal
    CLIENT.call("mode.set", mode="active")
    wanted = {cookie: "cubic" if cookie == pinned else "ltp" for cookie in flows()}
    until(lambda: {cookie: flow["arm"] for cookie, flow in flows().items()} == wanted, flows)


def killed() -> None:
    """Without a daemon, flows go on with the fallback arm by themselves."""
    with Datapath() as kernel:
        before = kernel.flows()
        assert len(before) == 2
        for flow in before:
            until_it_moves(kernel, flow)
            if not flow.record["flags"][0] & protocol.FlowFlags.PINNED:
                fallen = until_it_falls_back(kernel, flow)
                assert fallen.record["arm"][0] == protocol.ArmId.CUBIC


if __name__ == "__main__":
    {"daemon": daemon, "driven": driven, "advised": advised, "killed": killed}[sys.argv[1]]()
    print(sys.argv[1], "ok")
