# SPDX-License-Identifier: Apache-2.0
"""The scenario: one link, its changes over time, and the flows that share it.

A scenario file is TOML and the one input of every runner:

    name = "step-12-24"
    duration_s = 60
    [link]
    rate_mbps = 12.0          # or: trace = "TMobile-LTE-short.down", offset_s = 30.0 into it
    rtt_ms = 40.0
    buffer_bdp = 1.0          # or: buffer_pkts = 80
    loss = 0.0                # random, 0..1, data direction
    police_mbps = 10.0        # optional: a policer drops packets above this rate, before the queue
    police_burst_pkts = 100   # beside it: the burst that it lets pass, default 64
    jitter_ms = 10.0          # optional: longest time for which ACKs wait for a shared medium
    queue = "fq_codel"        # optional: a queue discipline of the kernel, default "drop-tail"
    [[link.step]]             # optional, any number, in order of time
    at_s = 20.0
    rate_mbps = 24.0          # and/or rtt_ms, loss
    [[flow]]
    scheme = "switcher"
    start_s = 0.0             # optional, default 0
    stop_s = 60.0             # optional, default the scenario's end
    rtt_ms = 40.0             # optional, overrides the link's base RTT for this flow at all times
    [settings.kernel]         # optional: sections and keys of the daemon's configuration file
    restore = "reinit"

A table [requests] adds a web server and its clients; see `requests`. Then [[flow]] may be missing. Further
tables of a link, such as [link.walk], are in `road`; [cross], traffic beside the flows, is in `cross`.
Several paths at once take the place of [link]:

    [[path]]                  # up to 16; the n-th, from 0, leads to the addresses 10.2.n.0/24
    name = "dsl"
    rate_mbps = 16.0          # and every other key and table of [link]
    rtt_ms = 30.0
    [[flow]]
    scheme = "cubic"
    path = "dsl"              # by default the first path

The rates of all paths sum to at most 200 Mbit/s, and no RTT is below 2 ms. Otherwise a busy guest would let
one path delay another.

Rates count IP packets at the bottleneck, in Mbit/s (10^6 bit/s). The RTT is the path's without queueing.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher import toml_file
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.checked_table import Table
from ltp_switcher.eval.run.cross import CROSS_KEYS, Cross, parse_cross
from ltp_switcher.eval.run.daemon_settings import Settings, merged, parse_table
from ltp_switcher.eval.run.requests import REQUEST_KEYS, Requests, parse_requests
from ltp_switcher.eval.run.road import PLAIN, ROAD_KEYS, SILENT_MBPS, Road, parse_road
from ltp_switcher.eval.run.schemes import check_scheme
from ltp_switcher.eval.run.series import BIN_S

PACKET_BYTES: Final = 1500
"""Size in bytes of the packets in which buffers are counted: one full Ethernet payload."""

MODEL_TRACE: Final = "model:lte"
"""Name of a trace that always means the seeded LTE-like model, even if trace files exist."""

DROP_TAIL: Final = "drop-tail"
QUEUES: Final = (DROP_TAIL, "fq_codel", "codel", "pie")
"""Names of the bottleneck's queues: drop-tail, or a queue discipline of the kernel with its defaults."""

FLOWS_MAX: Final = 256
PATHS_MAX: Final = 16
PATHS_MBPS: Final = 200.0
"""Largest sum of the rates of several paths."""
PATHS_RTT_MS: Final = 2.0
"""Least RTT in ms if there are several paths."""
_NAME: Final = re.compile(r"(?!\.)[^/\\\x00-\x1f\x7f]{1,100}")
LIFE_MIN_S: Final = BIN_S
"""Shortest life of a flow in seconds. A shorter flow may have no bin of its own, and so no results."""


@dataclass(frozen=True, slots=True)
class LinkStep:
    """A change of the link at `at_s` seconds; `None` leaves a property as it was."""

    at_s: float
    rate_mbps: float | None = None
    rtt_ms: float | None = None
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class LinkState:
    """The link's properties from `at_s` seconds on; `rate_mbps` is `None` where a trace gives the rate."""

    at_s: float
    rate_mbps: float | None
    rtt_ms: float
    loss: float


@dataclass(frozen=True, slots=True)
class Link:
    """The bottleneck, with exactly one of `rate_mbps` and `trace`.

    `trace` is the name of a mahimahi trace under the trace folder, a path, or `MODEL_TRACE`. The run begins
    `offset_s` seconds into the trace, which repeats at its end. A policer is a token bucket of
    `police_burst_pkts` packets with the rate `police_mbps`; None without a policer. `queue` is one of
    `QUEUES`. Acknowledgements come in batches, like the ACKs of a Wi-Fi client: each waits for the client's
    next turn. The time between two turns is uniform from 0 to `jitter_ms`, so an RTT is longer by up to this
    time. The buffer is fixed for the whole run. It has `buffer_pkts` packets if they are given. Otherwise it
    has `buffer_bdp` bandwidth-delay products of the link at its start; a trace counts with its mean rate.
    """

    rtt_ms: float
    rate_mbps: float | None = None
    trace: str | None = None
    buffer_bdp: float = 1.0
    buffer_pkts: int | None = None
    loss: float = 0.0
    steps: tuple[LinkStep, ...] = ()
    offset_s: float = 0.0
    police_mbps: float | None = None
    police_burst_pkts: int = 64
    queue: str = DROP_TAIL
    jitter_ms: float = 0.0
    road: Road = PLAIN

    def buffer_packets(self, rate_mbps: float) -> int:
        """Return the buffer's length in packets of `PACKET_BYTES`, at least 1, for a link of `rate_mbps`."""
        if self.buffer_pkts is not None:
            return self.buffer_pkts
        bdp_bytes = rate_mbps * 1e6 / 8 * self.rtt_ms / 1e3
        return max(1, round(self.buffer_bdp * bdp_bytes / PACKET_BYTES))

    def states(self) -> Iterator[LinkState]:
        """Yield the link's state at 0 s and after each step or handover, without silences and walk."""
        state = LinkState(0.0, self.rate_mbps, self.rtt_ms, self.loss)
        yield state
        handovers = (LinkStep(h.at_s, h.rate_mbps, h.rtt_ms) for h in self.road.handovers)
        for step in sorted((*self.steps, *handovers), key=lambda step: step.at_s):
            state = LinkState(
                step.at_s,
                state.rate_mbps if step.rate_mbps is None else step.rate_mbps,
                state.rtt_ms if step.rtt_ms is None else step.rtt_ms,
                state.loss if step.loss is None else step.loss,
            )
            yield state

    def in_steps(self, duration_s: float) -> Link:
        """Return the link with steps in place of its walk, its handovers and their silences.

        In a silence the rate is `SILENT_MBPS`.
        """
        walk, handovers = self.road.walk, self.road.handovers
        if walk is None and not handovers:
            return self
        states = list(self.states())
        starts_s = np.array([state.at_s for state in states])
        every_s = duration_s if walk is None else walk.every_s
        walked_s = np.round(np.arange(np.ceil(duration_s / every_s - 1e-9)) * every_s, 6)
        above_ms = np.zeros(walked_s.size) if walk is None else walk.above_ms(walked_s.size)
        silent_s = [(h.at_s, h.sounds_s) for h in handovers]
        times_s = np.unique([*starts_s, *walked_s, *itertools.chain.from_iterable(silent_s)])
        steps = []
        for at_s in times_s[1:].tolist():
            state = states[int(np.searchsorted(starts_s, at_s, side="right")) - 1]
            rtt_ms = state.rtt_ms + float(above_ms[np.searchsorted(walked_s, at_s, side="right") - 1])
            silent = any(begin_s <= at_s < end_s for begin_s, end_s in silent_s)
            rate_mbps = SILENT_MBPS if silent else state.rate_mbps
            steps.append(LinkStep(at_s, rate_mbps, round(rtt_ms, 3), state.loss))
        return replace(self, steps=tuple(steps), road=replace(self.road, walk=None, handovers=()))

    def faster(self, factor: float) -> Link:
        """Return the link with the times of its changes divided by `factor`."""
        steps = tuple(replace(s, at_s=round(s.at_s / factor, 3)) for s in self.steps)
        return replace(self, steps=steps, road=self.road.faster(factor))


@dataclass(frozen=True, slots=True)
class Path:
    """One of several paths: its name and its link."""

    name: str
    link: Link


@dataclass(frozen=True, slots=True)
class Flow:
    """A bulk transfer from `start_s` to `stop_s`; `rtt_ms` overrides the link's base RTT.

    `path` is the number of its path, from 0.
    """

    scheme: str
    start_s: float
    stop_s: float
    rtt_ms: float | None = None
    path: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One experiment, without seed and kernel.

    `paths` has the paths if there are several, and is empty otherwise. `link` is the first or only path's
    link.
    """

    name: str
    duration_s: float
    link: Link
    flows: tuple[Flow, ...]
    settings: Settings = ()
    """Settings of the daemon, used if the scheme needs a daemon."""
    requests: Requests | None = None
    """The requests to a web server beside the flows; None without a server."""
    paths: tuple[Path, ...] = ()
    cross: Cross | None = None
    """Traffic beside the flows that no result counts."""

    @property
    def links(self) -> tuple[Link, ...]:
        """The links of all paths, in order."""
        return tuple(path.link for path in self.paths) or (self.link,)

    @property
    def scheme(self) -> str:
        """The web server's scheme, or else the first flow's. It distinguishes the runs of a scenario."""
        return self.flows[0].scheme if self.requests is None else self.requests.scheme

    def need_requests(self) -> Requests:
        """Return the requests.

        Raises:
            ConfigError: the scenario has none.
        """
        if self.requests is None:
            raise ConfigError("requests", None, "a table [requests]")
        return self.requests

    def with_settings(self, settings: Settings) -> Scenario:
        """Return the scenario with these settings of the daemon in place of its own values for
        the same keys.
        """
        return replace(self, settings=merged(self.settings, settings))

    def with_scheme(self, scheme: str, *, every_flow: bool = False) -> Scenario:
        """Return the scenario with `scheme` on its first flow, or on all flows with `every_flow`.

        If there is a web server, the scheme is the server's, and only `every_flow` changes the flows.

        Raises:
            ConfigError: `scheme` is not one that can be run.
        """
        check_scheme("scheme", scheme)
        requests = None if self.requests is None else replace(self.requests, scheme=scheme)
        changed = len(self.flows) if every_flow else 1 if requests is None else 0
        flows = (replace(flow, scheme=scheme) for flow in self.flows[:changed])
        return replace(self, flows=(*flows, *self.flows[changed:]), requests=requests)

    def faster(self, factor: float) -> Scenario:
        """Return the scenario with all its times divided by `factor`, under another name."""
        flows = tuple(
            replace(f, start_s=round(f.start_s / factor, 3), stop_s=round(f.stop_s / factor, 3))
            for f in self.flows
        )
        requests = self.requests
        if requests is not None:
            requests = replace(requests, stop_s=round(requests.stop_s / factor, 3))
        return replace(
            self,
            name=f"{self.name}/{factor:g}",
            duration_s=round(self.duration_s / factor, 3),
            link=self.link.faster(factor),
            flows=flows,
            requests=requests,
            paths=tuple(replace(path, link=path.link.faster(factor)) for path in self.paths),
            cross=self.cross and self.cross.faster(factor),
        )

    def alone(self, index: int) -> Scenario:
        """Return the scenario with one of its flows alone on the link."""
        return replace(self, name=f"{self.name}/alone", flows=(self.flows[index],), requests=None, cross=None)

    def base_rtt_ms(self, flow: Flow) -> float:
        """Return the base RTT of `flow` in ms, averaged over the flow's life if the link's RTT changes."""
        if flow.rtt_ms is not None:
            return flow.rtt_ms
        states = list(self.links[flow.path].in_steps(self.duration_s).states())
        ends = [state.at_s for state in states[1:]] + [self.duration_s]
        total = 0.0
        for state, end_s in zip(states, ends, strict=True):
            overlap_s = min(end_s, flow.stop_s) - max(state.at_s, flow.start_s)
            total += state.rtt_ms * max(0.0, overlap_s)
        return total / (flow.stop_s - flow.start_s)

    def canonical(self) -> str:
        """Return a JSON text for hashing. Equal scenarios have equal texts. A trace is in the text by its
        name.
        """
        values = asdict(self)
        # Results from before these keys existed are kept under the hash of a text without the keys.
        if self.requests is None:
            del values["requests"]
        else:
            for key in ("video", "traffic"):
                if getattr(self.requests, key) is None:
                    del values["requests"][key]
        if not self.paths:
            del values["paths"]
        if self.cross is None:
            del values["cross"]
        for link, of in [
            (values["link"], self.link),
            *(
                (given["link"], path.link)
                for given, path in zip(values.get("paths", ()), self.paths, strict=True)
            ),
        ]:
            for key, usual in _LATER_LINK_KEYS.items():
                if getattr(of, key) == usual:
                    del link[key]
        for flow in values["flows"]:
            if flow["path"] == 0:
                del flow["path"]
        return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def load_scenario(path: pathlib.Path) -> Scenario:
    """Read and check a scenario file. A relative `link.trace` path counts from the file's folder.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or breaks a rule of this module.
    """
    scenario = parse_scenario(toml_file.read(path, "scenario"))

    def found(link: Link) -> Link:
        if link.trace is None or not is_path(link.trace) or pathlib.Path(link.trace).is_absolute():
            return link
        return replace(link, trace=str((path.parent / link.trace).resolve()))

    paths = tuple(replace(one, link=found(one.link)) for one in scenario.paths)
    return replace(scenario, link=found(scenario.link), paths=paths)


def is_path(trace: str) -> bool:
    """Return whether a trace is given as a path, which has a slash, and not by name."""
    return "/" in trace


def parse_scenario(document: Mapping[str, object]) -> Scenario:
    """Check a parsed TOML document and build the scenario.

    Raises:
        ConfigError: a value breaks a rule; the error names the field's path, its value and the allowed
            values.
    """
    root = Table(
        "", document, ("name", "duration_s", "link", "path", "flow", "requests", "cross", "settings")
    )
    duration_s = root.number("duration_s")
    if "path" in root:
        root.exactly_one("link", "path")
        paths = _paths(root, duration_s)
        link = paths[0].link
    else:
        paths = ()
        link = _link(root.table("link", _LINK_KEYS), duration_s)
    names = tuple(path.name for path in paths)
    flows = tuple(_flow(table, duration_s, names) for table in root.tables("flow", _FLOW_KEYS))
    requests = None
    if "requests" in root:
        requests = parse_requests(root.table("requests", REQUEST_KEYS), duration_s)
    if len(flows) > FLOWS_MAX or not (flows or requests):
        raise ConfigError("flow", len(flows), f"1 to {FLOWS_MAX} tables [[flow]]")
    if requests is not None and link.queue != DROP_TAIL:
        raise ConfigError("link.queue", link.queue, f"{DROP_TAIL} beside [requests]")
    if requests is not None and requests.traffic is None and paths:
        raise ConfigError("path", list(names), f"no tables beside [requests] of the kind {requests.kind}")
    if requests is not None and requests.traffic is not None and (flows or not paths):
        allowed = "tables [[path]], and no [[flow]] beside them"
        raise ConfigError("requests.kind", requests.kind, allowed)
    cross = parse_cross(root.table("cross", CROSS_KEYS)) if "cross" in root else None
    if cross is not None and (paths or requests):
        raise ConfigError("cross", "tables", f"no table beside {'[[path]]' if paths else '[requests]'}")
    settings = parse_table(root.mapping("settings")) if "settings" in root else ()
    return Scenario(_name(root), duration_s, link, flows, settings, requests, paths, cross)


def _name(root: Table) -> str:
    """The scenario's name, which names files, too."""
    name = root.text("name")
    if not _NAME.fullmatch(name):
        raise ConfigError(root.field("name"), name, "1 to 100 marks, without slashes and no dot first")
    return name


_LINK_KEYS: Final = (
    "rate_mbps", "trace", "offset_s", "rtt_ms", "buffer_bdp", "buffer_pkts", "loss", "police_mbps",
    "police_burst_pkts", "queue", "jitter_ms", "step", *ROAD_KEYS,
)  # fmt: skip
_LATER_LINK_KEYS: Final[Mapping[str, object]] = {"queue": DROP_TAIL, "jitter_ms": 0.0, "road": PLAIN}
"""Fields of a link that are newer than some kept results, each with the value that has no effect."""
_STEP_KEYS: Final = ("at_s", "rate_mbps", "rtt_ms", "loss")
_FLOW_KEYS: Final = ("scheme", "start_s", "stop_s", "rtt_ms", "path")


def _paths(root: Table, duration_s: float) -> tuple[Path, ...]:
    tables = root.tables("path", ("name", *_LINK_KEYS))
    if not 1 <= len(tables) <= PATHS_MAX:
        raise ConfigError("path", len(tables), f"1 to {PATHS_MAX} tables [[path]]")
    paths: list[Path] = []
    for table in tables:
        name = _name(table)
        if name in [path.name for path in paths]:
            raise ConfigError(table.field("name"), name, "a name that no other path has")
        link = _link(table, duration_s)
        if link.queue != DROP_TAIL:
            raise ConfigError(table.field("queue"), link.queue, DROP_TAIL)
        least_ms = min(state.rtt_ms for state in link.states())
        if least_ms < PATHS_RTT_MS:
            raise ConfigError(table.field("rtt_ms"), least_ms, f"at least {PATHS_RTT_MS:g} ms for [[path]]")
        paths.append(Path(name, link))
    rates = [max(state.rate_mbps or 0.0 for state in path.link.states()) for path in paths]
    if sum(rates) > PATHS_MBPS:
        allowed = f"paths whose largest rates sum to {PATHS_MBPS:g} Mbit/s at most"
        raise ConfigError("path.rate_mbps", rates, allowed)
    return tuple(paths)


def _link(table: Table, duration_s: float) -> Link:
    table.exactly_one("rate_mbps", "trace")
    if "buffer_bdp" in table and "buffer_pkts" in table:
        table.exactly_one("buffer_bdp", "buffer_pkts")
    steps = tuple(_step(step, duration_s) for step in table.tables("step", _STEP_KEYS))
    for i, (before, after) in enumerate(itertools.pairwise(steps), start=1):
        if after.at_s <= before.at_s:
            raise ConfigError(
                f"{table.field('step')}[{i}].at_s",
                after.at_s,
                f"later than {before.at_s:g} s, the step before",
            )
    table.only_with("offset_s", "trace")
    table.only_with("police_burst_pkts", "police_mbps")
    if "trace" in table:
        for i, step in enumerate(steps):
            if step.rate_mbps is not None:
                raise ConfigError(
                    f"{table.field('step')}[{i}].rate_mbps", step.rate_mbps, "no key: a trace gives the rate"
                )
    road = parse_road(table, duration_s)
    if road != PLAIN and _queue(table) != DROP_TAIL:
        allowed = f"{DROP_TAIL} beside {', '.join(key for key in ROAD_KEYS if key in table)}"
        raise ConfigError(table.field("queue"), table.text("queue"), allowed)
    moments = {step.at_s for step in steps}
    for i, handover in enumerate(road.handovers):
        if handover.at_s in moments:
            field = f"{table.field('handover')}[{i}].at_s"
            raise ConfigError(field, handover.at_s, "a time at which no step is")
    return Link(
        rtt_ms=table.number("rtt_ms"),
        rate_mbps=table.optional_number("rate_mbps"),
        trace=table.text("trace") if "trace" in table else None,
        buffer_bdp=table.number("buffer_bdp", default=1.0),
        buffer_pkts=table.integer("buffer_pkts") if "buffer_pkts" in table else None,
        loss=table.number("loss", default=0.0),
        steps=steps,
        offset_s=table.number("offset_s", default=0.0),
        police_mbps=table.optional_number("police_mbps"),
        police_burst_pkts=table.integer("police_burst_pkts") if "police_burst_pkts" in table else 64,
        queue=_queue(table),
        jitter_ms=table.number("jitter_ms", default=0.0),
        road=road,
    )


def _queue(table: Table) -> str:
    queue = table.text("queue") if "queue" in table else DROP_TAIL
    # A trace has several opportunities at one moment, and a discipline gives one packet at a time.
    allowed = (DROP_TAIL,) if "trace" in table else QUEUES
    if queue not in allowed:
        raise ConfigError(table.field("queue"), queue, f"one of {', '.join(allowed)}")
    if queue != DROP_TAIL and "jitter_ms" in table:
        raise ConfigError(table.field("queue"), queue, f"{DROP_TAIL} beside {table.field('jitter_ms')}")
    return queue


def _step(table: Table, duration_s: float) -> LinkStep:
    at_s = table.number("at_s", low=0.0, high=duration_s)
    step = LinkStep(at_s, *(table.optional_number(key) for key in _STEP_KEYS[1:]))
    if not 0.0 < at_s < duration_s:
        raise ConfigError(table.field("at_s"), at_s, f"more than 0 and less than {duration_s:g} s")
    if step.rate_mbps is step.rtt_ms is step.loss is None:
        raise ConfigError(table.field("at_s"), at_s, "a step that changes rate_mbps, rtt_ms or loss")
    return step


def _flow(table: Table, duration_s: float, paths: Sequence[str]) -> Flow:
    start_s = table.number("start_s", low=0.0, high=duration_s, default=0.0)
    stop_s = table.number("stop_s", low=0.0, high=duration_s, default=duration_s)
    if stop_s - start_s < LIFE_MIN_S - 1e-9:
        allowed = f"at least {LIFE_MIN_S:g} s after start_s ({start_s:g} s)"
        raise ConfigError(table.field("stop_s"), stop_s, allowed)
    scheme = check_scheme(table.field("scheme"), table.required("scheme"))
    number = 0
    if "path" in table:
        name = table.text("path")
        if name not in paths:
            allowed = f"the name of a table [[path]]: {', '.join(paths) or 'there is none'}"
            raise ConfigError(table.field("path"), name, allowed)
        number = paths.index(name)
    return Flow(scheme, start_s, stop_s, table.optional_number("rtt_ms"), number)
