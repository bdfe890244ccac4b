# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from support.bandit_world import World

from ltp_switcher.daemon.choose.bandit.replay import main, replay, replay_file
from ltp_switcher.daemon.datapath.recording import Recorder
from ltp_switcher.daemon.settings.schema import LearningSection
from ltp_switcher.encoder.baselines import fit_linear, fit_means, score
from ltp_switcher.encoder.dataset import Sequence, digest, load_sequences, save_sequence, weights
from ltp_switcher.errors import ArtifactError

SHARES = {1: (1.0, 2.0), 2: (0.8, 1.2), 3: (1.0, 1.05)}


def record(seed: int, steps: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """One flow whose arm is drawn anew every 60 steps."""
    rng = np.random.default_rng(seed)
    world = World(1, SHARES, 3e6, 4e4)
    wanted = np.array([1], np.uint8)
    records, chosen = [], []
    for t in range(steps):
        records.append(world.step(wanted))
        if t % 60 == 0:
            wanted = rng.choice(list(SHARES), 1).astype(np.uint8)
        chosen.append(wanted[0])
    return np.concatenate(records), np.array(chosen, np.uint8)


def test_answers_are_the_rewards_of_the_arm_that_was_chosen() -> None:
    records, chosen = record(1)
    out = replay(records, chosen, LearningSection())
    known = np.isfinite(out["reward"])
    assert out["inputs"].shape == (900, 75)
    assert 0.5 < known[100:-100].mean() < 1
    # Once all three arms have shown themselves, R_max is that of the path.
    for arm, (share, queue) in SHARES.items():
        told = out["reward"][known & (chosen == arm) & (np.arange(900) > 400)]
        if told.size:
            assert told.mean() == pytest.approx(share**2 / queue, abs=0.12)
    # The end of a recording is not an answer.
    assert not known[-5:].any()


def test_a_folder_of_recordings_becomes_a_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, split in enumerate(("train", "train", "validation", "test")):
        records, chosen = record(seed, 400)
        recorder = Recorder(tmp_path / f"{split}-{seed}.npy")
        for row, arm in zip(records, chosen, strict=True):
            recorder.append(np.zeros(1, np.int64), np.array([row], records.dtype), np.array([arm], np.uint8))
        recorder.close()
        (tmp_path / f"{split}-{seed}.json").write_text(f'{{"split": "{split}"}}')
    assert main([str(tmp_path)]) == 0
    assert "with an answer" in capsys.readouterr().out
    data = load_sequences(tmp_path)
    assert [len(data[split]) for split in ("train", "validation", "test")] == [2, 1, 1]
    assert digest(data) == digest(load_sequences(tmp_path))
    means = fit_means(data["train"], 21)
    assert means[3] > means[1]
    linear = fit_linear(data["train"], 21)
    by_mean = score(data["test"], lambda s: means[s.arm])
    by_line = score(data["test"], lambda s: (s.inputs * linear[s.arm]).sum(axis=1))
    assert by_mean.r2 > 0.3
    assert by_line.error < 0.1
    perfect = score(data["test"], lambda s: np.nan_to_num(s.reward))
    assert perfect.error == 0
    assert perfect.r2 == perfect.within_r2 == 1


def test_each_flow_of_a_recording_is_a_sequence_of_its_own(tmp_path: Path) -> None:
    flows = [record(seed, 400) for seed in (0, 1)]
    recorder = Recorder(tmp_path / "x.npy")
    for at in range(400):
        # The second flow begins later, and its cookie is the lower one.
        at_once = [0, 1] if at >= 50 else [0]
        rows = np.array([flows[n][0][at - 50 * n] for n in at_once], flows[0][0].dtype)
        rows["cookie"] = [9 - n for n in at_once]
        arms = np.array([flows[n][1][at - 50 * n] for n in at_once], np.uint8)
        recorder.append(np.array(at_once), rows, arms)
    recorder.close()
    found = replay_file(tmp_path / "x.npy", LearningSection())
    assert [len(one["arm"]) for one in found] == [400, 350]
    for one, (records, chosen), steps in zip(found, flows, (400, 350), strict=True):
        alone = replay(records[:steps], chosen[:steps], LearningSection())
        assert all(np.array_equal(one[name], alone[name], equal_nan=True) for name in alone)


def test_weights_give_changes_half_and_a_path_its_choices() -> None:
    fresh = np.zeros(100, bool)
    fresh[[0, 40, 80]] = True
    reward = np.full(100, 0.5, np.float32)
    reward[90:] = np.nan
    weight = weights(Sequence(np.zeros((100, 3), np.float32), np.ones(100, np.uint8), reward, fresh, "train"))
    assert weight.sum() == pytest.approx(3)
    assert weight[[*range(4), *range(40, 44), *range(80, 84)]].sum() == pytest.approx(1.5)
    assert (weight[90:] == 0).all()


def test_bad_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "no recording" in capsys.readouterr().err
    with pytest.raises(ArtifactError, match="no path of the split train"):
        load_sequences(tmp_path)
    (tmp_path / "x.npz").write_bytes(b"rubbish")
    with pytest.raises(ArtifactError, match="not a sequence"):
        load_sequences(tmp_path)
    save_sequence(tmp_path / "x.npz", Sequence(np.zeros((5, 75), np.float32), np.ones(5, np.uint8),
                  np.zeros(5, np.float32), np.ones(5, bool), "holiday"))  # fmt: skip
    with pytest.raises(ArtifactError, match="not a sequence"):
        load_sequences(tmp_path)
