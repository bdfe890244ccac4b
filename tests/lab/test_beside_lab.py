# SPDX-License-Identifier: Apache-2.0
"""The daemon beside a guest: runs that repeat to the byte, and are like those with the daemon inside."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ltp_switcher.eval.lab import beside, boot, run_inputs, run_scenario
from ltp_switcher.eval.lab.script import Place
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario
from ltp_switcher.eval.run.series import read_series

pytestmark = pytest.mark.lab

PATH = Scenario("path", 5.0, Link(rate_mbps=8.0, rtt_ms=30.0, buffer_bdp=2.0), (Flow("switcher", 0.0, 5.0),))


def test_a_run_repeats_to_the_byte_whatever_the_host_does() -> None:
    first = run_scenario(PATH, place="beside")
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            second = run_scenario(PATH, place="beside")
        finally:
            busy.kill()
    assert first.files == second.files
    assert first.virtual_s == second.virtual_s
    flows = json.loads(first.files["flows.json"])["flows"]
    assert flows[0]["switches"] > 0


@pytest.mark.parametrize("place", ["beside", pytest.param("inside", marks=pytest.mark.long)])
def test_a_learned_arm_is_driven_from_both_places(place: Place) -> None:
    run = run_scenario(PATH, scheme="ltp", kernel="6.12", place=place)
    guest = json.loads(run.files["guest.json"])
    assert guest["fallbacks"] == 0
    assert guest["learned"]["ltp"]["controls"] > 100
    (series,) = read_series(run.files["timeseries.csv"].decode())
    assert series.goodput_mbps[20:].mean() > 6.0


ROUNDING = """
import hashlib, math, random
import numpy as np
chance = random.Random(1)
x = [chance.uniform(-5, 5) for _ in range(20000)]
a, m = np.array(x), np.array(x[:10000]).reshape(100, 100)
own = [f(v) for f in (math.exp, math.sin, lambda v: abs(v) ** 1.7) for v in x]
of_numpy = [np.exp(a), np.tanh(a), np.log1p(abs(a)), a.sum(), m @ m, np.linalg.inv(m)]
for values in (np.array(own), *of_numpy):
    print(hashlib.sha256(values.tobytes()).hexdigest())
"""


def test_arithmetic_rounds_as_in_the_guest() -> None:
    """The guest's processor is the same on every host, and so are the results of the daemon beside it."""
    inside = boot(script=f"cat >/run/sums.py <<'END'\n{ROUNDING}END\npython3 /run/sums.py", python=True)
    command, environment = beside.interpreter()
    done = subprocess.run(
        [*command, "-c", ROUNDING], env=environment, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.split()) == 7
    assert inside.console.split() == done.stdout.split()


def test_the_place_of_the_daemon_is_part_of_the_fingerprint() -> None:
    places = {
        run_inputs(PATH, seed=1, kernel="6.1", place=place).fingerprint() for place in ("beside", "inside")
    }
    assert len(places) == 2
    plain = PATH.with_scheme("cubic")
    same = {
        run_inputs(plain, seed=1, kernel="6.1", place=place).fingerprint() for place in ("beside", "inside")
    }
    assert len(same) == 1
