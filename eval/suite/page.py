# SPDX-License-Identifier: Apache-2.0
"""The report of a suite: `results.json` for programs, `report.html` for people, with its pictures inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from statistics import median
from typing import Final

from ltp_switcher.eval.run.series import BIN_S
from ltp_switcher.eval.suite.breaches import TABLE_HEAD as BREACHES_HEAD
from ltp_switcher.eval.suite.breaches import Breaches
from ltp_switcher.eval.suite.breaches import table_rows as breaches_rows
from ltp_switcher.eval.suite.breaches import to_dict as breaches_dict
from ltp_switcher.eval.suite.harm import TABLE_HEAD as HARM_HEAD
from ltp_switcher.eval.suite.harm import Harm
from ltp_switcher.eval.suite.harm import table_rows as harm_rows
from ltp_switcher.eval.suite.kinds import use_of
from ltp_switcher.eval.suite.losses import AFTERMATH_S, CAUSES, PROBE_S, Losses, mean_by_cause, mean_regret_s
from ltp_switcher.eval.suite.over_time import SEGMENT_S, SETTLE_RTTS, SETTLE_S, START_S, Recovery
from ltp_switcher.eval.suite.paths import family
from ltp_switcher.eval.suite.plan import EARLIER, is_arm
from ltp_switcher.eval.suite.score import Mean, PathScore, gap_closed, grouped, means, over_arms
from ltp_switcher.eval.suite.siblings import TABLE_HEAD as PLAYERS_HEAD
from ltp_switcher.eval.suite.siblings import Player
from ltp_switcher.eval.suite.siblings import table_rows as players_rows
from ltp_switcher.eval.suite.studies import CHANGED
from ltp_switcher.eval.suite.transitions import TABLE_HEAD as TRANSITIONS_HEAD
from ltp_switcher.eval.suite.transitions import WINDOW_S, Transition
from ltp_switcher.eval.suite.transitions import table_rows as transitions_rows
from ltp_switcher.eval.suite.video import VIDEO_HEAD, VideoPath, video_rows
from ltp_switcher.eval.suite.web import TABLE_HEAD, WebPath, table_rows

WORST: Final = 5
KINDS: Final = ("all", "static", "changing", "trace", "several")
"""Kinds of path whose means get intervals."""
_STYLE: Final = """
body { font: 15px/1.45 sans-serif; color: #1A1A1A; max-width: 78em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 0.6em 0 1.8em } caption { text-align: left; padding: 0.3em 0 }
th, td { padding: 0.15em 0.7em; text-align: right; border-bottom: 1px solid #DDDDDD }
th:first-child, td:first-child, td.text { text-align: left }
td.low { color: #B2182B } td.high { font-weight: bold }
img { max-width: 100% } p { max-width: 60em }
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of the results: how and from which revision they were made."""

    command: str
    revision: str
    seeds: Mapping[str, Sequence[int]]
    """Seeds by scheme."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A finished suite: how it was run, its paths' scores, and tables about some of the paths."""

    set_name: str
    kernel: str
    quick: bool
    wall_s: float
    origin: Origin | None = None

    paths: Sequence[PathScore] = ()
    late: Sequence[PathScore] = ()
    """Scores of the paths, with rewards that leave out each flow's first seconds."""
    barren: Sequence[str] = ()
    """The paths on which no arm earned anything. No mean includes them."""

    recoveries: Mapping[str, Sequence[Recovery]] = field(default_factory=dict)
    """Times of recovery after changes of the path, by scheme."""
    oracles: Mapping[str, float] = field(default_factory=dict)
    """Ratio of the reward of an oracle, which knows the best arm of each segment, to the best arm's, by path
    with one flow.
    """
    losses: Mapping[str, Sequence[Losses]] = field(default_factory=dict)
    """Losses of reward compared with the best arm, by scheme; see the module `losses`."""
    breaches: Mapping[str, Sequence[Breaches]] = field(default_factory=dict)
    """Times for which a scheme stayed where it starved, by scheme; see the module `breaches`."""
    transitions: Sequence[Transition] = ()
    """Costs of a switch, from the schemes that switch once; empty without such schemes."""

    web: Sequence[WebPath] = ()
    """Scores of the paths with requests. `paths` does not have these."""
    videos: Sequence[VideoPath] = ()
    """Scores of the paths with a video. `paths` and `web` do not have these."""
    players: Sequence[Player] = ()
    """Scores of all flows of a scheme together, for the paths on which several flows run the scheme."""
    harms: Sequence[Harm] = ()
    """Harm to the flow beside, for the paths that have such a flow."""

    @property
    def schemes(self) -> list[str]:
        """The names of the schemes: first the schemes in which the daemon chooses, then the single arms."""
        found = dict.fromkeys(scheme for path in self.paths for scheme in path.cells)
        return sorted(found, key=is_arm)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "made_by": None if self.origin is None else asdict(self.origin),
            "set": self.set_name, "kernel": self.kernel, "quick": self.quick, "wall_s": self.wall_s,
            "summary": {
                scheme: {group: asdict(mean) for group, mean in means(self.paths, scheme).items()}
                for scheme in self.schemes
            },
            "without_start": {
                scheme: {group: asdict(mean) for group, mean in means(self.late, scheme).items()}
                for scheme in self.schemes
            },
            "recoveries": {
                scheme: {"median_s": median(one.took_s for one in of), "changes": [asdict(one) for one in of]}
                for scheme, of in self.recoveries.items()
            },
            "losses": {
                scheme: {
                    "mean": mean_by_cause(of),
                    "paths": {one.path: dict(one.by_cause) for one in of},
                    "regret_s": [round(float(at), 4) for at in mean_regret_s(of)[:: round(1 / BIN_S)]],
                }
                for scheme, of in self.losses.items()
            },
            "breaches": breaches_dict(self.breaches),
            "oracle": {group: asdict(mean) for group, mean in oracle_means(self).items()},
            "gap_closed": {s: list(gap_closed(self.paths, s)) for s in self.schemes if not is_arm(s)},
            "over": [asdict(one) for s in self.schemes if not is_arm(s) for one in over_arms(self.paths, s)],
            "left_out": list(self.barren),
            "paths": [
                {
                    "name": path.name, "family": family(path.name), "kind": path.kind,
                    "use": use_of(path.name),
                    "best_arm": path.best_arm, "oracle": self.oracles.get(path.name),
                    "schemes": {
                        scheme: {"share": path.share(scheme), **asdict(cell)}
                        for scheme, cell in path.cells.items()
                    },
                }
                for path in self.paths
            ],
            "web": [path.to_dict() for path in self.web],
            "videos": [path.to_dict() for path in self.videos],
            "players": [asdict(player) for player in self.players],
            "harms": [asdict(harm) for harm in self.harms],
            "transitions": [asdict(one) for one in self.transitions],
        }  # fmt: skip


def oracle_means(results: Results) -> dict[str, Mean]:
    """Return the means of the oracle's rewards relative to the best arm's, over all paths and over each kind;
    empty without paths.
    """
    shares = [(path, results.oracles[path.name]) for path in results.paths if path.name in results.oracles]
    return {group: mean for group, mean in grouped(shares).items() if group in KINDS}


BREACHES_CAPTION: Final = (
    "Breaches: time for which a flow earned less than half of another arm alone on the same path, beyond the "
    f"longer of {SETTLE_S:g} s and {SETTLE_RTTS:g} round trips, and beyond a probe. First of arms that the "
    "flow had run before, then of any arm"
)
OVER_CAPTION: Final = (
    "Beside single arms, path by path: the geometric mean of the ratio of rewards. Its interval comes from "
    "drawing the paths anew, and then from drawing whole families"
)
OVER_HEAD: Final = ("scheme", "over", "paths", "ratio", "interval", "by families")


def over_rows(results: Results) -> list[list[str]]:
    """Return the rows, under `OVER_HEAD`, that compare the daemon's schemes with single arms."""
    return [
        [
            one.scheme, one.arm, str(one.by_path.paths), f"{one.by_path.value:.3f}",
            f"{one.by_path.low:.3f} to {one.by_path.high:.3f}",
            f"{one.by_family.low:.3f} to {one.by_family.high:.3f}",
        ]
        for scheme in results.schemes
        if not is_arm(scheme)
        for one in over_arms(results.paths, scheme)
    ]  # fmt: skip


def barren_text(names: Sequence[str]) -> str:
    """Return a sentence that names the paths that are left out."""
    return f"Left out, because no arm earned anything there: {', '.join(names)}."


def worst(paths: Sequence[PathScore], scheme: str) -> list[PathScore]:
    """Return the paths on which the scheme is furthest from the best arm, the worst first."""
    return sorted((path for path in paths if scheme in path.cells), key=lambda p: p.share(scheme))[:WORST]


def html(results: Results, pictures: Mapping[str, str]) -> str:
    """Return the page as HTML. `pictures` holds PNG files in base64 by title."""
    length = " in half of their time" if results.quick else ""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Evaluation</title>",
        f"<style>{_STYLE}</style><h1>Evaluation on the {escape(results.set_name)} set</h1>",
        f"<p>{len(results.paths)} paths{length}, Linux {escape(results.kernel)}, cold start. A figure is "
        "a scheme's reward (Eq. 1) over that of the path's best arm in hindsight: the arm with the largest "
        "mean over its seeds. Means over paths are geometric, with 95 % bootstrap intervals over the paths. "
        "A scheme that changes its arm may exceed 1 on a path that changes. <code>rule</code> is the default "
        "policy of the daemon, <code>bandit</code> the learned one. <code>known</code> is the default policy "
        f"on a path that {EARLIER} connections have used before, and <code>vegas-later</code> is Vegas after "
        "the same connections. <code>bpftune</code>, Oracle's, has seen as many.</p>",
        _origin(results.origin),
        f"<p>{escape(barren_text(results.barren))}</p>" if results.barren else "",
        _changed(results.schemes),
        _means_table("By kind and family", results.schemes, results.paths),
        _means_table(f"The same without the first {START_S:g} s of each flow", results.schemes, results.late),
    ]
    if over := over_rows(results):
        parts.append(_text_table(OVER_CAPTION, OVER_HEAD, over))
    if results.oracles:
        found = oracle_means(results)
        bounds = ", ".join(
            f"{_mean_text(mean, interval=True)} on {group} paths" for group, mean in found.items()
        )
        parts.append(
            f"<p>An oracle that knows the best arm of every {SEGMENT_S:g} s beforehand, and pays nothing "
            f"for a switch, earns {bounds}.</p>"
        )
    for scheme, of in results.recoveries.items():
        within = sum(one.took_s <= one.allowed_s for one in of)
        parts.append(
            f"<p>After a change of the path, <b>{escape(scheme)}</b> came within 10 % of the best arm's "
            f"settled reward in {median(one.took_s for one in of):.1f} s (median of {len(of)} changes), and "
            f"{within} times within the longer of {SETTLE_S:g} s and {SETTLE_RTTS:g} round trips.</p>"
        )
    for scheme in (s for s in results.schemes if not is_arm(s)):
        single, closed = gap_closed(results.paths, scheme)
        below = ", ".join(f"{p.name} {p.share(scheme):.2f}" for p in worst(results.paths, scheme))
        parts.append(
            f"<p><b>{escape(scheme)}</b> closes {closed:.0%} of the log gap from the best single arm "
            f"({escape(single)}) to the best arms in hindsight. Its worst paths: {escape(below)}.</p>"
        )
    parts.append(_losses_table(results.losses))
    if results.breaches:
        parts.append(_text_table(BREACHES_CAPTION, BREACHES_HEAD, breaches_rows(results.breaches)))
    parts.append(_paths_table(results))
    if results.players:
        parts.append(_players_table(results.players))
    if results.harms:
        title = "Harm to the flow beside, and its excess over that of the flow's own protocol"
        parts.append(_text_table(title, HARM_HEAD, harm_rows(results.harms)))
    if results.transitions:
        title = f"What a switch costs within {WINDOW_S:g} s, in seconds of the new arm's reward: medians"
        parts.append(_text_table(title, TRANSITIONS_HEAD, transitions_rows(results.transitions)))
    if results.web:
        parts.append(_web_table(results.web))
    if results.videos:
        title = (
            "How a video played, means over the seeds. Quality: a second that plays earns its bitrate, a "
            "second that stands still costs the largest one"
        )
        parts.append(_text_table(title, VIDEO_HEAD, video_rows(results.videos)))
    for title, data in pictures.items():
        parts.append(
            f'<h2>{escape(title)}</h2><img alt="{escape(title)}" src="data:image/png;base64,{data}">'
        )
    return "\n".join(parts) + "\n"


def _origin(origin: Origin | None) -> str:
    if origin is None:
        return ""
    seeds = "; ".join(f"{escape(s)} {', '.join(map(str, of))}" for s, of in origin.seeds.items())
    command, made_of = escape(origin.command), escape(origin.revision)
    return f"<p>Made by <code>{command}</code>, revision {made_of}. Seeds: {seeds}.</p>"


def _changed(schemes: Sequence[str]) -> str:
    """A sentence on the schemes that are another scheme with some of its settings changed."""
    said = [
        f"<code>{escape(name)}</code> is <code>{escape(CHANGED[name][0])}</code>"
        + ", ".join(f" with <code>{escape(f'{key} = {value}')}</code>" for key, value in CHANGED[name][1])
        for name in schemes
        if name in CHANGED
    ]
    return f"<p>{'; '.join(said)}.</p>" if said else ""


def _means_table(title: str, schemes: Sequence[str], paths: Sequence[PathScore]) -> str:
    by_scheme = {scheme: means(paths, scheme) for scheme in schemes}
    groups = dict.fromkeys(group for of in by_scheme.values() for group in of)
    kinds = [group for group in KINDS if group in groups]
    order = [*kinds, *(group for group in groups if group not in kinds)]
    rows = []
    for group in order:
        first = next(of[group] for of in by_scheme.values() if group in of)
        cells = [_mean(of.get(group), interval=group in kinds) for of in by_scheme.values()]
        rows.append(f"<tr><td>{escape(group)}<td>{first.paths}{''.join(cells)}")
    head = "".join(f"<th>{escape(scheme)}" for scheme in by_scheme)
    return _table(title, f"<th>paths<th>number{head}", rows)


def _mean(mean: Mean | None, *, interval: bool) -> str:
    return "<td>" + ("" if mean is None else _mean_text(mean, interval=interval))


def _mean_text(mean: Mean, *, interval: bool) -> str:
    bounds = f" [{mean.low:.2f}, {mean.high:.2f}]" if interval and mean.paths > 1 else ""
    return f"{mean.value:.3f}{bounds}"


def _paths_table(results: Results) -> str:
    rows = []
    for path in results.paths:
        cells = []
        for scheme in results.schemes:
            if scheme not in path.cells:
                cells.append("<td>")
                continue
            share = path.share(scheme)
            mark = " class=high" if share >= 0.999 else " class=low" if share < 0.9 else ""
            cells.append(f"<td{mark}>{share:.3f}")
        oracle = f"<td>{results.oracles[path.name]:.3f}" if path.name in results.oracles else "<td>"
        cells.append(oracle)
        names = (path.name, use_of(path.name), path.best_arm)
        rows.append(f"<tr>{''.join(f'<td class=text>{escape(name)}' for name in names)}{''.join(cells)}")
    head = "".join(f"<th>{escape(scheme)}" for scheme in results.schemes)
    return _table("By path", f"<th>path<th>use<th>best arm{head}<th>oracle", rows)


def _losses_table(losses: Mapping[str, Sequence[Losses]]) -> str:
    rows = []
    for scheme, of in losses.items():
        mean = mean_by_cause(of)
        cells = "".join(f"<td>{100 * mean[cause]:.2f}" for cause in CAUSES)
        rows.append(f"<tr><td>{escape(scheme)}<td>{len(of)}{cells}<td>{100 * sum(mean.values()):.2f}")
    caption = (
        "Where reward is lost to the best arm in hindsight, % of its reward, means over the paths with one "
        f"flow. Below 0 is a gain. start: the first {START_S:g} s. change: the longer of {SETTLE_S:g} s and "
        f"{SETTLE_RTTS:g} round trips after a change of the path. probe: an arm that stayed up to "
        f"{PROBE_S:g} s. aftermath: {AFTERMATH_S:g} s after a switch"
    )
    head = "".join(f"<th>{cause}" for cause in CAUSES)
    return _table(caption, f"<th>scheme<th>paths{head}<th>sum", rows)


def _players_table(players: Sequence[Player]) -> str:
    title = "Several flows of a scheme as one player: Eq. 1 of the sum, times Jain's index"
    return _text_table(title, PLAYERS_HEAD, players_rows(players))


def _text_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) for row in rows]
    return _table(title, "".join(f"<th>{escape(name)}" for name in head), lines)


def _web_table(paths: Sequence[WebPath]) -> str:
    rows = []
    for row in table_rows(paths):
        texts = "".join(f"<td class=text>{escape(text)}" for text in row[:2])
        rows.append(f"<tr>{texts}" + "".join(f"<td>{escape(text)}" for text in row[2:]))
    caption = (
        "Completion times of downloads (short) and pages, all seeds together. The best arm (*) has the "
        "smallest geometric mean of p50 and p95. Pairs: geometric mean over the requests"
    )
    return _table(caption, "".join(f"<th>{escape(name)}" for name in TABLE_HEAD), rows)


def _table(caption: str, head: str, rows: Iterable[str]) -> str:
    return f"<table><caption><b>{caption}</b></caption><tr>{head}\n" + "\n".join(rows) + "</table>"
