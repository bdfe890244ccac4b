# SPDX-License-Identifier: Apache-2.0
"""Applications that pause: a video player, and requests on one connection that is kept."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.lab.script import request_plan
from ltp_switcher.eval.lab.sessions import is_session
from ltp_switcher.eval.run.completion_times import read_completions, summarise_requests
from ltp_switcher.eval.run.requests import Video
from ltp_switcher.eval.run.scenario import Scenario, parse_scenario

VIDEO = """
name = "video"
duration_s = 30
[link]
rate_mbps = 1.0
rtt_ms = 40.0
[requests]
kind = "video"
scheme = "cubic"
chunk_s = 2.0
buffer_s = 12.0
bitrates_mbps = [2.0, 4.0]
"""
KEPT = """
name = "kept"
duration_s = 12
[link]
rate_mbps = 20.0
rtt_ms = 50.0
[requests]
kind = "kept"
scheme = "cubic"
per_s = 2.0
"""


def scenario(text: str, **changes: object) -> Scenario:
    document = tomllib.loads(text)
    document["requests"] |= changes
    return parse_scenario(document)


def test_a_players_sizes_and_plan_come_from_its_bitrates() -> None:
    requests = scenario(VIDEO, stop_s=20).need_requests()
    assert requests.video == Video(2.0, 12.0, (2.0, 4.0))
    assert (requests.smallest_kb, requests.largest_kb, requests.per_s) == (500.0, 1000.0, 0.5)
    name, start_us, *rest = request_plan(requests, seed=3).decode().split()
    assert name == "video"
    assert 0 <= int(start_us) < 10_000
    assert list(map(int, rest)) == [20_000_000, 2_000_000, 12_000_000, 2_000_000, 4_000_000]
    assert request_plan(requests, seed=3) != request_plan(requests, seed=4)


def test_only_these_kinds_and_other_links_are_sessions() -> None:
    assert is_session(scenario(VIDEO))
    assert is_session(scenario(KEPT))
    pages = tomllib.loads(KEPT)
    pages["requests"]["kind"] = "pages"
    assert not is_session(parse_scenario(pages))
    pages["link"]["jitter_ms"] = 5.0
    assert is_session(parse_scenario(pages))


@pytest.mark.parametrize(
    ("text", "changes", "told"),
    [
        (VIDEO, {"per_s": 1.0}, "requests.per_s: 1.0 .* no such key with the kind video"),
        (KEPT, {"chunk_s": 2.0}, "requests.chunk_s: 2.0 .* no such key with the kind kept"),
        (VIDEO, {"chunk_s": 0.5}, "requests.chunk_s: 0.5 .* a number from 1 to 20"),
        (VIDEO, {"buffer_s": 1.0}, r"requests.buffer_s: 1.0 .* at least chunk_s \(2\)"),
        (VIDEO, {"bitrates_mbps": []}, "requests.bitrates_mbps: .* a list of 1 to 16 numbers"),
        (VIDEO, {"bitrates_mbps": [1, "2"]}, "requests.bitrates_mbps.1: '2' .* a number from 0.05 to 200"),
        (VIDEO, {"bitrates_mbps": [2, 2]}, "requests.bitrates_mbps: .* each larger than the one before"),
    ],
)
def test_a_bad_value_is_explained(text: str, changes: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scenario(text, **changes)


def test_a_videos_pauses_and_bitrate_are_told() -> None:
    rows = "at_us,bytes,first_us,done_us\n0,500000,9,1000000\n1000000,1000000,9,9000000\n9000000,9,0,0\n"
    video = {"startup_us": 1e6, "played_us": 3e6, "rebuffer_us": 1e6, "rebuffers": 1, "bits": 12e6}
    server = {"delivered_pkts": 90, "dropped_pkts": 5, "lost_pkts": 5, "video": video}
    text = json.dumps({"server": server, "flows": [], "offered_mbit": 30.0})
    summary, _ = summarise_requests(scenario(VIDEO), rows, text)
    assert summary.video is not None
    assert (summary.video.startup_s, summary.video.rebuffer_s, summary.video.rebuffers) == (1.0, 1.0, 1)
    assert summary.video.rebuffer_share == 0.25
    assert summary.video.mean_mbps == 3.0
    assert summary.unfinished == 1


def run(text: str, folder: Path) -> tuple[Path, dict[str, object]]:
    path = folder / "one.toml"
    path.write_text(text)
    assert cli.main(["run", str(path), "--no-cache", "--out", str(folder)]) == 0
    return folder / "requests.csv", json.loads((folder / "summary.json").read_text())["requests"]


@pytest.mark.lab
def test_a_video_that_is_too_large_for_its_link_stands_still(tmp_path: Path) -> None:
    """A chunk of 500,000 bytes takes 4.14 s with its headers of 52 in 1500, and some round trips more."""
    _, told = run(VIDEO, tmp_path)
    video = told["video"]
    assert isinstance(video, dict)
    assert video["mean_mbps"] == 2.0
    chunk_s = 500_000 * 1500 / 1448 * 8 / 1e6
    assert chunk_s < video["startup_s"] < chunk_s + 0.3
    # Each later chunk comes after its predecessor's 2 s were played.
    assert video["rebuffers"] == 6
    assert video["rebuffer_s"] / video["rebuffers"] == pytest.approx(chunk_s + 0.1 - 2.0, abs=0.1)


@pytest.mark.lab
def test_a_video_over_a_fast_link_never_stands_still_and_leaves_the_link_idle(tmp_path: Path) -> None:
    """The buffer's 12 s and the 30 s played are 20 or 21 chunks, all but the first of the larger bitrate."""
    file, told = run(VIDEO.replace("rate_mbps = 1.0", "rate_mbps = 12.0"), tmp_path)
    video = told["video"]
    assert isinstance(video, dict)
    assert video["rebuffer_s"] == 0.0
    done = read_completions(file.read_text())
    assert done.kilobytes.tolist() == [500.0] + [1000.0] * (done.at_s.size - 1)
    assert done.at_s.size in (20, 21)
    # Once the buffer is full, a chunk is asked for every 2 s.
    assert (done.at_s[-1] - done.at_s[-4]) / 3 == pytest.approx(2.0, abs=0.001)


@pytest.mark.lab
def test_requests_on_a_kept_connection_need_no_handshake_and_come_in_order(tmp_path: Path) -> None:
    file, told = run(KEPT, tmp_path)
    assert told["unfinished"] == 0
    assert "video" not in told
    done = read_completions(file.read_text())
    ends_s = done.at_s + done.took_s
    assert (ends_s[1:] > ends_s[:-1]).all()
    # One that fits the first window and waits for none before it takes one round trip and its own time.
    alone = (done.kilobytes[1:] < 13.0) & (done.at_s[1:] > ends_s[:-1])
    assert alone.sum() >= 3
    assert done.took_s[1:][alone].min() > 0.050
    assert sorted(done.took_s[1:][alone])[1] < 0.075
    # The first has a handshake before it.
    assert done.took_s[0] > 0.100
