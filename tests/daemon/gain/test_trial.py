# SPDX-License-Identifier: Apache-2.0
"""Who is held back, and when."""

from ltp_switcher.daemon.gain.rows import Group
from ltp_switcher.daemon.gain.trial import Trial

PREFIXES = [f"10.{a}.{b}.0/24" for a in range(100) for b in range(100)]


def test_a_holdback_keeps_its_share_of_the_prefixes_and_the_seed_says_which() -> None:
    one, same, other = (Trial("holdback", share=0.1, seed=seed) for seed in (1, 1, 2))
    held = {p for p in PREFIXES if one.holds_back(p)}
    assert 900 < len(held) < 1100
    assert held == {p for p in PREFIXES if same.holds_back(p)}
    assert len(held & {p for p in PREFIXES if other.holds_back(p)}) < 200
    assert not any(one.pauses(block) for block in range(100))


def test_a_switchback_pauses_half_of_the_blocks() -> None:
    trial = Trial("switchback", block_s=600, washout_s=60)
    blocks = [trial.block(600.0 * n + 5) for n in range(1000)]
    assert len(set(blocks)) == 1000
    assert 440 < sum(map(trial.pauses, blocks)) < 560
    assert not trial.holds_back("10.0.0.0/24")


def test_rows_are_of_the_group_of_their_time() -> None:
    trial = Trial("switchback", block_s=600, washout_s=60)
    assert trial.group(6000 + 59, control=True) == Group.WASHOUT
    assert trial.group(6000 + 61, control=True) == Group.CONTROL
    assert trial.group(6000 + 61, control=False) == Group.TREATED
    assert Trial().group(0, control=False) == Group.NONE
    assert Trial("holdback").group(30, control=True) == Group.CONTROL
