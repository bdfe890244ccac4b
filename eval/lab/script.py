# SPDX-License-Identifier: Apache-2.0
"""The guest's script for a scenario: modules, the daemon if a scheme needs it, and the flows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.beside import AGENT, READY, measured
from ltp_switcher.eval.run.daemon_settings import Settings, merged, to_config
from ltp_switcher.eval.run.requests import KB, KINDS, Requests, draw_requests
from ltp_switcher.eval.run.scenario import DROP_TAIL, PACKET_BYTES, Scenario
from ltp_switcher.eval.run.schemes import (
    BPFTUNE,
    DAEMON_SCHEMES,
    LEARNED_ARMS,
    NETWORK_AGENT,
    Scheme,
    resolve,
)

Place = Literal["inside", "beside"]
"""Place of the daemon: inside the guest, or beside it on the host, with the guest's clock; see
`beside.py`.
"""
PLACES: Final[tuple[Place, ...]] = get_args(Place)
USUAL_PLACE: Final[Place] = "inside"
START_JITTER_US: Final = 10_000
"""Largest delay of a flow's start after its `start_s`, in µs. It is drawn from the seed, so that seeds
differ.
"""
RESULTS: Final = "/run/lab/results"
STATUS: Final = "/run/lab/status.json"
"""Guest's file with the daemon's status at the end, if learned arms ran."""
REQUESTS: Final = "/run/lab/requests"
CROSS: Final = "/run/lab/cross"
"""Guest's file with the completion times of downloads beside the flows, without its ending `.csv`."""
PATIENCE_S: Final = 60.0
"""Time in seconds after the scenario's end in which a request may still become complete."""
DAEMON_CONFIG: Final = "/lab/daemon.toml"
NETWORK: Final = 256
"""Number of addresses in a path's destination network."""
HOSTS: Final = 250
"""Number of addresses of a path's destination network that flows use, from the second one on. Flows with the
same address differ in their port.
"""
PAYLOAD_BYTES: Final = 1448
"""Payload in bytes of a packet of `PACKET_BYTES`. TCP paces by this size."""

_START_AGENT: Final = f"""PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 \\
	python3 -m ltp_switcher.api.network_agent.main --node lablink:/dev/lablink \\
	--listen {NETWORK_AGENT} >/run/lab/agent.log 2>&1 &
agent=$!
until grep -q 'network knowledge on' /run/lab/agent.log; do
	kill -0 $agent || {{ cat /run/lab/agent.log; exit 1; }}
	sleep 0.05
done"""
_START_RELAY: Final = f"""PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 \\
	python3 -m ltp_switcher.daemon.cli network --config {DAEMON_CONFIG} >/run/lab/relay.log 2>&1 &"""
"""Shell lines that start the relay, which carries reports from the agent to the daemon."""
_TELL: Final = f"python3 -m ltp_switcher.daemon.cli status --json >{STATUS}"
_START_BESIDE: Final = f"""/{AGENT} >/run/lab/daemon.log 2>&1 &
daemon=$!
until test -e {READY}; do
	kill -0 "$daemon" 2>/dev/null || {{ cat /run/lab/daemon.log; exit 1; }}
	sleep 0.05
done"""
"""Shell lines that start the agent of a daemon beside the guest, and wait until the daemon is ready."""
END_DAEMON: Final = 'kill -TERM "$daemon"; wait "$daemon" || { cat /run/lab/daemon.log; exit 1; }'
"""Shell lines that end the daemon. A daemon beside the guest writes `STATUS` then."""


_ASK: Final = """cat >/run/lab/ask.py <<'END'
import signal, time
from ltp_switcher.daemon.datapath import Datapath
with Datapath() as datapath:
    datapath.open_session()
    print("asking", flush=True)
    time.sleep(0.5)
    datapath.close_step()
    signal.pause()
END
PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 python3 /run/lab/ask.py >/run/lab/ask.log 2>&1 &
ask=$!
until grep -q asking /run/lab/ask.log; do
	kill -0 $ask || { cat /run/lab/ask.log; exit 1; }
	sleep 0.05
done"""
"""Shell lines that read the flows' records once, half a second after the first flow has begun. They keep the
session with the module open.
"""

_UNTIL: Final = """({traffic} || true; touch /run/lab/ended) &
until grep -q '{words}' /run/lab/daemon.log || test -e /run/lab/ended; do
	kill -0 "$daemon" || {{ cat /run/lab/daemon.log; exit 1; }}
	sleep 0.2
done"""


@dataclass(frozen=True, slots=True)
class GuestDaemon:
    """The daemon of a guest, and the parts of the guest's script that belong to it.

    Attributes:
        policy: name of the daemon's policy.
        options: further options of the daemon's command line; only inside the guest.
        after: shell lines after the traffic. They know the daemon's process id as $daemon.
        settings: settings of the daemon. The scenario's own settings override them.
        beside: shell lines that run while the traffic runs. They know $daemon, too.
        until: text of a line in the daemon's log at which the traffic ends; empty without such a line.
        place: place of the daemon. If it is beside the guest, no program in the guest sends it commands.
    """

    policy: str
    options: str = ""
    after: tuple[str, ...] = ()
    settings: Settings = ()
    beside: tuple[str, ...] = ()
    until: str = ""
    place: Place = "inside"

    @property
    def tells_status(self) -> bool:
        """Whether the daemon's status is in the file `STATUS` at the end."""
        return not {_TELL, END_DAEMON}.isdisjoint(self.after)


def needs(scenario: Scenario, protocol: str) -> bool:
    """Tell whether a flow of the scenario, or its web server, runs this congestion control."""
    return any(scheme.protocol == protocol for scheme in _schemes(scenario))


def asks_network(scenario: Scenario) -> bool:
    """Tell whether a scheme of the scenario uses the network's signals, which an agent
    measures at the link.
    """
    asks = "learned.owl_network_urls"
    return any(key == asks for scheme in _schemes(scenario) for key, _ in scheme.settings)


def asks_for_steps(scenario: Scenario) -> bool:
    """Tell whether a scheme of the scenario has the module measure its flow although no daemon runs."""
    return any(scheme.measured for scheme in _schemes(scenario))


def asks_bpftune(scenario: Scenario) -> bool:
    """Tell whether bpftune chooses for the scenario's connections.

    Raises:
        ConfigError: bpftune would also choose for a flow of another scheme.
    """
    tuned = {scheme.bpftune for scheme in _schemes(scenario)}
    if len(tuned) > 1:
        allowed = f"{BPFTUNE} alone, because it steers every connection of its machine"
        raise ConfigError("flow.scheme", sorted(set(_names(scenario))), allowed)
    return True in tuned


def daemon_of(scenario: Scenario, place: Place = USUAL_PLACE) -> GuestDaemon | None:
    """Return the daemon that the scenario's schemes need, if any.

    The daemon is always inside the guest in three cases. It asks the network, or it takes over the machine's
    default congestion control, or the time of its policy or of a learned arm was never measured; see `delay`.

    Raises:
        ConfigError: the schemes need two policies, two variants of a learned arm, or a policy that would also
            choose for a flow that has to keep its arm.
    """
    schemes = _schemes(scenario)
    policies = {scheme.policy for scheme in schemes if scheme.policy is not None}
    # A daemon that chooses would also choose for a flow that has to stay on its arm.
    staying = any(scheme.protocol == "mutant" and scheme.policy is None for scheme in schemes)
    if len(policies) > 1 or (staying and policies - {"keep"}):
        raise ConfigError(
            "flow.scheme",
            sorted(set(_names(scenario))),
            f"one of {', '.join(DAEMON_SCHEMES)}, or any of {', '.join(LEARNED_ARMS)} and mutant:<arm> in a "
            "scenario",
        )
    if not policies:
        return None
    # Policies are loaded before the first flow, not while it waits.
    driven = {scheme for scheme in schemes if scheme.policy == "keep"}
    learned = tuple(sorted({scheme.arm for scheme in driven if scheme.arm}))
    if len(driven) > len(learned):
        names = sorted(set(_names(scenario)))
        raise ConfigError("flow.scheme", names, "one variant of a learned arm in a scenario")
    variants = tuple(sorted({scheme.variant for scheme in driven if scheme.variant}))
    lists = (("learned.variants", variants), ("pool.arms", learned))
    settings: Settings = tuple((key, names) for key, names in lists if names)
    for scheme in schemes:
        settings = merged(settings, scheme.settings)
    # If the daemon died on the way, the run would measure something else.
    alive = 'kill -0 "$daemon" || { cat /run/lab/daemon.log; exit 1; }'
    policy, given = policies.pop(), dict(merged(settings, scenario.settings))
    arms = given.get("pool.arms", ())
    # On the host, the machine's default would be the host's own.
    if (
        asks_network(scenario)
        or given.get("kernel.take_default")
        or not measured(policy, arms if isinstance(arms, tuple) else ())
    ):
        place = "inside"
    tell = _TELL if place == "inside" else END_DAEMON
    after = (alive, tell) if learned else (alive,)
    return GuestDaemon(policy, after=after, settings=settings, place=place)


def daemon_config(daemon: GuestDaemon, scenario: Scenario, seed: int) -> bytes:
    """Return the daemon's configuration file for a run of this seed."""
    settings = merged(merged((("daemon.mode", "active"),), daemon.settings), scenario.settings)
    return to_config(merged(settings, (("daemon.policy", daemon.policy), ("daemon.seed", seed)))).encode()


def flow_table(scenario: Scenario, seed: int) -> bytes:
    """Return the flows in the form that the traffic program takes, a line for each flow."""
    jitter = random.Random(seed)  # noqa: S311 # an experiment's seed, not a secret
    lines = []
    for index, flow in enumerate(scenario.flows):
        scheme = resolve(flow.scheme)
        start_us = round(flow.start_s * 1e6) + jitter.randrange(START_JITTER_US)
        stop_us = round(flow.stop_s * 1e6)
        # bpftune learns by address, where the daemon learns by prefix.
        server = 0 if scheme.bpftune else index
        if scenario.paths:
            # Path n leads to 10.2.n.0/24.
            server = NETWORK * flow.path + server % HOSTS
        lines.append(f"{scheme.protocol} {scheme.arm or '-'} {start_us} {stop_us} {server}\n")
    return "".join(lines).encode()


def script(scenario: Scenario, daemon: GuestDaemon | None) -> str:
    """Return the shell script that the guest runs."""
    lines = ["set -e", ". /lab/network", *_queue(scenario), *_cross(scenario)]
    for protocol in sorted({scheme.protocol for scheme in _schemes(scenario)}):
        if protocol == "mutant":
            lines.append("insmod /lib/mutant/tcp_mutant.ko")
        elif protocol == "fixed":
            lines.append(f"insmod /lab/fixed.ko rates={_rates(scenario)}")
        elif protocol not in ("cubic", "reno"):
            lines.append(f"modprobe tcp_{protocol}")
    watched = ""
    if asks_bpftune(scenario):
        lines += [". /lab/bpftune", "start_bpftune"]
        watched = ' "$bpftune"'
    if asks_network(scenario):
        lines.append(_START_AGENT)
    if daemon is not None:
        start = f"start_daemon {DAEMON_CONFIG} {daemon.options}".rstrip()
        lines.append(start if daemon.place == "inside" else _START_BESIDE)
        if asks_network(scenario):
            lines.append(_START_RELAY)
        watched = ' "$daemon"'
        lines += daemon.beside
    elif asks_for_steps(scenario):
        lines.append(_ASK)
    end_ms = round(scenario.duration_s * 1e3)
    traffic = f"/lab/bin/traffic /lab/schedule /lab/flows {end_ms} {RESULTS}{watched}"
    if daemon is not None and daemon.until:
        lines.append(_UNTIL.format(traffic=traffic, words=daemon.until))
    elif scenario.requests is None:
        lines.append(traffic)
    else:
        lines += _with_requests(scenario.requests, end_ms, traffic)
    if asks_bpftune(scenario):
        lines.append("stop_bpftune")
    return "\n".join([*lines, *(daemon.after if daemon else ()), ""])


def _queue(scenario: Scenario) -> list[str]:
    """The lines that give the link its queue discipline."""
    link = scenario.link
    if link.queue == DROP_TAIL:
        return []
    limit_pkts = link.buffer_packets(link.rate_mbps or 0.0)
    return [
        f"tc qdisc replace dev lab-queue root {link.queue} limit {limit_pkts}",
        "ip link set lab-queue up",
    ]


def _cross(scenario: Scenario) -> list[str]:
    """The lines that start the traffic beside the flows, which waits for the link's clock."""
    cross, lines = scenario.cross, []
    if cross is not None and cross.short is not None:
        end_ms = round(scenario.duration_s * 1e3)
        largest_bytes = round(cross.short.largest_kb * KB) + 1
        lines += [". /lab/web", f"serve {largest_bytes} cubic", f"browse 1 {end_ms} {CROSS}"]
    if cross is not None and cross.on_off is not None:
        lines.append(f"/lab/bin/pulses /lab/pulses {round(cross.on_off.rate_mbps * 1e6)} &")
    return lines


def cross_plans(scenario: Scenario, seed: int) -> dict[str, bytes]:
    """Return the plans of the traffic beside the flows, by guest path.

    A line of the plan of downloads has a time in µs and a size in bytes. A line of the plan of on-off packets
    has the begin and the end of a period of sending, in µs.
    """
    cross, plans = scenario.cross, {}
    if cross is not None and cross.short is not None:
        short = cross.short.draw(scenario.duration_s, seed)
        plans["lab/plan"] = "".join(f"{at_s * 1e6:.0f} {size}\n" for at_s, size in short).encode()
    if cross is not None and cross.on_off is not None:
        times_s = cross.on_off.draw(scenario.duration_s, seed)
        plans["lab/pulses"] = "".join(f"{on * 1e6:.0f} {off * 1e6:.0f}\n" for on, off in times_s).encode()
    return plans


def _with_requests(requests: Requests, end_ms: int, traffic: str) -> list[str]:
    """The lines that run the traffic beside a web server and its clients."""
    scheme = resolve(requests.scheme)
    largest_bytes = round(requests.largest_kb * KB) + 1
    serve = ["serve", str(largest_bytes), scheme.protocol, *([scheme.arm] if scheme.arm else [])]
    limit_ms = end_ms + round(PATIENCE_S * 1e3)
    return [
        ". /lab/web",
        " ".join(serve),
        f"browse {KINDS[requests.kind].connections} {limit_ms} {REQUESTS}",
        traffic,
        'wait "$browser"',
    ]


def request_plan(requests: Requests, seed: int) -> bytes:
    """Return the requests of a run in the form that the client takes, a line for each request."""
    if requests.video is not None:
        return requests.video.plan(requests.stop_s, seed).encode()
    drawn = draw_requests(requests, seed)
    return "".join(" ".join(map(str, (one.at_us, *one.sizes_bytes))) + "\n" for one in drawn).encode()


def _schemes(scenario: Scenario) -> list[Scheme]:
    return [resolve(name) for name in _names(scenario)]


def _names(scenario: Scenario) -> list[str]:
    """The flows' schemes, and the web server's."""
    served = [] if scenario.requests is None else [scenario.requests.scheme]
    return [*(flow.scheme for flow in scenario.flows), *served]


def _rates(scenario: Scenario) -> str:
    """Return the flows' rates in bytes of payload a second, as a text. A 0 comes before them, because flows
    count from 1. The rates of a scenario count whole packets.
    """
    payload_Bps = 1e6 / 8 * PAYLOAD_BYTES / PACKET_BYTES
    schemes = [resolve(flow.scheme) for flow in scenario.flows]
    rates = [round((scheme.rate_mbps or 0.0) * payload_Bps) for scheme in schemes]
    return ",".join(map(str, [0, *rates]))
