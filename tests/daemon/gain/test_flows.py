# SPDX-License-Identifier: Apache-2.0
"""The effect of an experiment on the value of flows, where the truth is known."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import zlib
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.gain import outcomes as log
from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.gain.effect import difference
from ltp_switcher.daemon.gain.flows import KeptFlows, effects
from ltp_switcher.daemon.gain.log import DecisionWriter, LogWriter
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Group

from .test_outcomes import BEFORE_GROUPS

SIZES = np.array([10_000, 100_000, 1_000_000, 10_000_000])
"""A flow of each size class."""


def flows(
    groups: np.ndarray, blocks: np.ndarray, prefixes: np.ndarray, sizes: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Outcomes of these values, at an RTT of 50 ms and without a loss, shape (n,)."""
    rows = np.zeros(len(groups), log.ROW_DTYPE)
    rows["group"], rows["block"] = groups, blocks
    rows["time_s"] = 1e9 + 600.0 * blocks
    told = rows["outcome"]
    told["cookie"], told["family"] = np.arange(len(groups)), socket.AF_INET
    told["daddr"][:, :4] = np.stack(
        [np.full(len(groups), 10), prefixes // 256, prefixes % 256, sizes], axis=1
    )
    told["acked_bytes"], told["delivered"] = SIZES[sizes], SIZES[sizes] // 1000
    mbps = np.sqrt(np.exp(values) * 50.0)
    told["busy_us"] = SIZES[sizes] * 8 / mbps
    told["rtt_us_sum"], told["rtt_samples"] = 50_000 * 10, 10
    return rows


def switchback(seed: int, gains: list[float], blocks: int = 96) -> np.ndarray:
    """Eight prefixes with up to three flows of each size in each block, all of which share its luck."""
    rng = np.random.default_rng(seed)
    block, prefix, size, _ = (part.ravel() for part in np.indices((blocks, 8, 4, 3)))
    here = rng.random(block.size) < 0.6
    block, prefix, size = block[here], prefix[here], size[here]
    treated = rng.permutation(blocks) < blocks // 2
    levels, luck = rng.normal(0, 1.5, (8, 4)), rng.normal(0, 0.3, blocks)
    values = levels[prefix, size] + luck[block] + rng.normal(0, 0.5, block.size)
    values += np.log1p(gains)[size] * treated[block]
    return flows(np.where(treated[block], Group.TREATED, Group.CONTROL), block, prefix, size, values)


def holdback(seed: int, gains: list[float], *, before: bool = True) -> np.ndarray:
    """Eighty prefixes, each with flows of some sizes, half of them held back; and the flows of before."""
    rng = np.random.default_rng(seed)
    time, prefix, size, _ = (part.ravel() for part in np.indices((2, 80, 4, 5)))
    here = (rng.random((80, 4)) < 0.6)[prefix, size] & (before | (time == 1))
    time, prefix, size = time[here], prefix[here], size[here]
    treated, levels = rng.permutation(80) < 40, rng.normal(0, 1.0, (80, 4))
    values = levels[prefix, size] + rng.normal(0, 0.5, prefix.size)
    values += np.log1p(gains)[size] * (treated[prefix] & (time == 1))
    groups = np.where(treated[prefix], Group.TREATED, Group.CONTROL)
    rows = flows(np.where(time == 1, groups, Group.NONE), np.full(prefix.size, -1), prefix, size, values)
    rows["time_s"] += time
    return rows


def test_a_planted_gain_is_found_in_its_size_class_and_no_other() -> None:
    found = effects(switchback(1, [0.0, 0.0, 0.5, 0.0]))
    assert list(found) == ["all", "< 30 KB", "< 300 KB", "< 3 MB", "more"]
    for name, truth in zip(found, (1.5**0.25 - 1, 0.0, 0.0, 0.5, 0.0), strict=True):
        effect = found[name]
        assert effect is not None
        assert effect.lower < truth < effect.upper
        assert effect.value == pytest.approx(truth, abs=0.2)
        assert (effect.treated, effect.control) == (48, 48)
    gained = found["< 3 MB"]
    assert gained is not None
    assert gained.lower > 0.2


def test_a_holdback_finds_a_planted_gain_and_the_flows_of_before_help() -> None:
    found, blind = (effects(holdback(2, [0.5] * 4, before=before)) for before in (True, False))
    widths = []
    for one in (found, blind):
        effect = one["all"]
        assert effect is not None
        assert effect.lower < 0.5 < effect.upper
        assert (effect.treated, effect.control) == (40, 40)
        widths.append(effect.upper - effect.lower)
    assert widths[0] < 0.5 * widths[1]


@pytest.mark.parametrize("made", [switchback, holdback])
def test_without_a_gain_one_in_twenty_intervals_leaves_out_0(made: object) -> None:
    """Flows as units would leave it out more often than that: those of a block or a prefix share its luck."""
    assert callable(made)
    wrong, wrong_by_flows = 0, 0
    for seed in range(60):
        rows = made(seed, [0.0] * 4)
        effect = effects(rows)["all"]
        assert effect is not None
        wrong += not effect.lower < 0 < effect.upper
        rows = rows[rows["group"] != Group.NONE]
        values = value.raw_values(rows["outcome"])
        places = rows["outcome"]["daddr"][:, 2].astype(np.int64) * 4 + rows["outcome"]["daddr"][:, 3]
        if made is switchback:
            values = value.clipped(values, places)
        naive = difference(values, rows["group"] == Group.TREATED)
        assert naive is not None
        wrong_by_flows += not naive.lower < 0 < naive.upper
    assert wrong <= 8
    assert wrong_by_flows >= 20


def test_each_flow_counts_once_and_those_of_no_group_do_not() -> None:
    rows = switchback(3, [0.2] * 4)
    known = effects(rows)["all"]
    early = rows[:200].copy()
    early["outcome"]["busy_us"] *= 50
    strange = rows[:200].copy()
    strange["outcome"]["cookie"] += 10**6
    strange["outcome"]["busy_us"] *= 50
    strange["group"][:100], strange["group"][100:] = Group.WASHOUT, Group.NONE
    assert effects(np.concatenate([early, strange, rows]))["all"] == known
    assert effects(rows, since_s=float(rows["time_s"].max()) + 1) == {}


@pytest.mark.parametrize("made", [switchback, holdback])
def test_where_losses_leave_nothing_the_reward_is_low_and_not_unknown(made: object) -> None:
    assert callable(made)
    rows = made(4, [0.0] * 4)
    treated = rows["group"] == Group.TREATED
    rows["outcome"]["lost"][treated] = rows["outcome"]["delivered"][treated]
    effect = effects(rows)["all"]
    assert effect is not None
    assert effect.upper < -0.8


def test_a_loss_counts_five_times_and_the_rtt_once() -> None:
    rows = switchback(5, [0.0] * 4)
    treated = rows["group"] == Group.TREATED
    plain = effects(rows)["all"]
    told = rows["outcome"]
    told["rtt_us_sum"][treated] *= 2
    told["delivered"], told["lost"] = 900, np.where(treated, 100, 0)
    changed = effects(rows)["all"]
    assert plain is not None
    assert changed is not None
    # The information of a flow changes with its RTT, and the mean of a block a little with it.
    assert np.log1p(changed.value) - np.log1p(plain.value) == pytest.approx(np.log(0.5**2 / 2), abs=0.03)


def kept(folder: Path, rows: np.ndarray) -> None:
    """A state directory with a log of one decision, and one of these outcomes."""
    decisions = DecisionWriter(folder / "decisions", 10**6, {1: "cubic"})
    decisions.append(np.zeros(1, ROW_DTYPE))
    decisions.close()
    writer = LogWriter(log.OUTCOMES, folder / "outcomes", 10**8, {1: "cubic"})
    writer.append(rows)
    writer.close()


def test_the_command_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, switchback(1, [0.0, 0.0, 0.5, 0.0]))
    assert main(["report", str(tmp_path / "decisions"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["flow_reward"]
    assert found["< 3 MB"]["lower"] > 0.2
    assert main(["report", str(tmp_path / "decisions" / "decisions-000000000001.log"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flow_reward"] == found
    assert main(["report", str(tmp_path / "decisions"), "--terse"]) == 0
    shown = {line.split("\t")[0]: line.split("\t") for line in capsys.readouterr().out.splitlines()}
    assert shown["flow reward, < 3 MB"][1] == f"{100 * found['< 3 MB']['value']:+.2f} %"
    assert shown["flow reward, all"][3] == "48 and 48"


def test_a_log_of_before_groups_has_no_effect_and_hides_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, switchback(1, [0.5] * 4))
    assert main(["report", str(tmp_path / "decisions"), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)["flow_reward"]
    new, old = (tmp_path / "outcomes" / f"outcomes-{number:012d}.log" for number in (1, 2))
    shutil.move(new, old)
    new.write_bytes(zlib.decompress(base64.b85decode(BEFORE_GROUPS)))
    assert main(["report", str(tmp_path / "decisions"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flow_reward"] == alone
    old.unlink()
    assert main(["report", str(tmp_path / "decisions"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flow_reward"] == {}
    shutil.rmtree(tmp_path / "outcomes")
    assert main(["report", str(tmp_path / "decisions"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flow_reward"] == {}


def test_kept_flows_follow_the_files(tmp_path: Path) -> None:
    rows = switchback(6, [0.5] * 4)
    flows_ = KeptFlows(tmp_path / "decisions")
    assert not flows_.refresh()
    assert not flows_.rows.size
    kept(tmp_path, rows[:100])
    assert flows_.refresh()
    assert not flows_.refresh()
    kept(tmp_path, rows[100:])
    assert flows_.refresh()
    assert flows_.rows["outcome"]["cookie"].tolist() == list(range(len(rows)))
    assert effects(flows_.rows) == effects(rows)
    (tmp_path / "outcomes" / "outcomes-000000000001.log").unlink()
    flows_.refresh()
    assert flows_.rows["outcome"]["cookie"].tolist() == list(range(100, len(rows)))
