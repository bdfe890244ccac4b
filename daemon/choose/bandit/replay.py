# SPDX-License-Identifier: Apache-2.0
"""Makes the encoder's training data from recordings: `python -m ltp_switcher.daemon.choose.bandit.replay`.

A recording passes through the same features, credit and normaliser as live flows. The target of step t is the
bandit's own question: how well does the arm chosen now do until the decision ends? The target is Mutant Eq.
1, normalised, over the samples that were sent under that arm while the decision is in force. A decision lasts
for the longer one of two times, the settings learning.hold_ms and learning.hold_rtts.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import ArmIds, Floats
from ltp_switcher.daemon.choose.bandit.agent import encoder_inputs
from ltp_switcher.daemon.choose.bandit.features import FeatureWindows
from ltp_switcher.daemon.choose.bandit.reward import RewardNormaliser, normalised
from ltp_switcher.daemon.datapath.performance import (
    DELIVERED,
    RTT_SAMPLES,
    TIME_NS,
    credit_counts,
    measure,
    performance,
)
from ltp_switcher.daemon.datapath.recording import read_recording
from ltp_switcher.daemon.settings.schema import LearningSection
from ltp_switcher.encoder.dataset import DATA, Sequence, save_sequence
from ltp_switcher.errors import ArtifactError, LtpSwitcherError, reason

# A decision that the next one cut short counts only if it lasted for this share of its time.
_SHOWN: Final = 0.4


def replay(records: NDArray[np.void], chosen: ArmIds, config: LearningSection) -> dict[str, np.ndarray]:
    """Make the training arrays from one flow's steps.

    Args:
        records: `RECORD_DTYPE`, shape (steps,), of one flow in the order of time.
        chosen: the arm chosen after each step, shape (steps,).
        config: settings for the length of a decision, for the reward (zeta, kappa) and for ADWIN.

    Returns:
        inputs: the encoder's inputs, float32, shape (steps, 75).
        arm: the arm whose reward is the target, uint8, shape (steps,).
        reward: the target, float32, shape (steps,); NaN where unknown.
        fresh: true where the arm was chosen anew in this step, bool, shape (steps,).
    """
    steps = len(records)
    windows = FeatureWindows()
    normaliser = RewardNormaliser(config)
    slot = np.zeros(1, np.intp)
    windows.reset(slot)
    normaliser.reset(slot)
    features = np.empty((steps, 55), np.float32)
    peak = np.empty((steps, 2))
    for t in range(steps):
        record = records[t : t + 1]
        features[t] = windows.push(slot, record)[0]
        normaliser.observe(slot, measure(record, config.credit), record["time_ns"].astype(np.int64))
        peak[t] = normaliser.throughput_max_Bps[0], normaliser.rtt_min_us[0]
    arms = records["arm"].astype(np.intp)
    fresh = np.ones(steps, np.bool_)
    fresh[1:] = chosen[1:] != chosen[:-1]
    return {
        "inputs": encoder_inputs(features, arms),
        "arm": chosen,
        "reward": _answers(records, chosen, peak, config).astype(np.float32),
        "fresh": fresh,
    }


def _answers(records: NDArray[np.void], chosen: ArmIds, peak: Floats, config: LearningSection) -> Floats:
    """Normalised reward of the decision in force from each step on, shape (steps,)."""
    steps = len(records)
    time_ns = records["time_ns"].astype(np.int64)
    srtt_ns = records["srtt_us"].astype(np.int64) * 1000
    counts, senders = credit_counts(records), records["credit"]["arm"]
    out = np.full(steps, np.nan)
    # The arm chosen at step t ends at the next step with another choice.
    change = np.flatnonzero(chosen[1:] != chosen[:-1]) + 1
    end_at = np.append(change, steps - 1)[np.searchsorted(change, np.arange(steps), side="right")]
    sent_ns = time_ns - srtt_ns
    for t in range(steps):
        hold_ns = max(config.hold_ms * 1e6, config.hold_rtts * float(srtt_ns[t]))
        until_ns = min(time_ns[t] + hold_ns, float(time_ns[end_at[t]]))
        if until_ns - time_ns[t] < _SHOWN * hold_ns:
            continue
        # The switch itself takes effect at the next ACK.
        first = int(np.searchsorted(time_ns, time_ns[t], side="right"))
        inside = first + np.flatnonzero((sent_ns[first:] >= time_ns[t]) & (sent_ns[first:] < until_ns))
        if not inside.size or sent_ns[-1] < until_ns:
            continue
        sent = counts[inside][senders[inside] == chosen[t]].sum(axis=0, keepdims=True)
        if not sent[0, [TIME_NS, DELIVERED, RTT_SAMPLES]].all():
            continue
        now = slice(t, t + 1)
        seen = performance(sent, records["mss"][now], records["srtt_us"][now])
        top_Bps, least_us = peak[inside[-1:]].T
        out[now] = normalised(seen, top_Bps, least_us, config.zeta, config.kappa)
    return out


def replay_file(path: Path, config: LearningSection) -> list[dict[str, np.ndarray]]:
    """Apply `replay` to each flow of a recording, in the order of the flows' first steps.

    Raises:
        ArtifactError: the file is not a recording, or has no step.
    """
    rows = read_recording(path)
    cookies, first = np.unique(rows["record"]["cookie"], return_index=True)
    if not cookies.size:
        raise ArtifactError(f"{path} has no step of a flow; make the run again")
    flows = (rows[rows["record"]["cookie"] == cookie] for cookie in cookies[np.argsort(first)])
    return [replay(of["record"], of["chosen"], config) for of in flows]


def main(arguments: list[str] | None = None) -> int:
    """Turn every flow of a folder's recordings into NAME-NUMBER.npz beside them; return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m ltp_switcher.daemon.choose.bandit.replay", description=__doc__
    )
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=DATA,
        help=f"recordings NAME.npy, each with NAME.json ({DATA})",
    )
    options = parser.parse_args(arguments)
    try:
        recordings = sorted(options.folder.glob("*.npy"))
        if not recordings:
            raise ArtifactError(f"{options.folder} holds no recording")
        for path in recordings:
            split = json.loads(path.with_suffix(".json").read_text())["split"]
            for number, arrays in enumerate(replay_file(path, LearningSection()), start=1):
                name = f"{path.stem}-{number}"
                save_sequence(path.with_name(f"{name}.npz"), Sequence(split=split, **arrays))
                answered = np.isfinite(arrays["reward"])
                print(
                    f"{name}: {len(answered)} steps, {int(answered.sum())} with an answer, "
                    f"mean reward {float(np.nanmean(arrays['reward'])) if answered.any() else np.nan:.3f}",
                    flush=True,
                )
    except (OSError, LtpSwitcherError) as error:
        print(f"replay: {reason(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
