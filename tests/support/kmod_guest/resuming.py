# SPDX-License-Identifier: Apache-2.0
"""Careful Resume: flows that begin with a part of the window that earlier flows to the same host had."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ltp_switcher.daemon.datapath import ResumeCounts
from ltp_switcher.daemon.datapath.protocol import ControlLaw, FlowFlags, ResumeMode

from .harness import Context, require, sh
from .net import CA_RECOVERY, Flow, TcpInfo, bbr_bdp_packets, ip, namespace, tc
from .steering import commands, control

RATE_MBIT, DELAY_MS = 100, 40
RTT_S = 2e-3 * DELAY_MS
PACKET_BYTES, FRAME_BYTES = 1448, 1514
BDP_PACKETS = RATE_MBIT * 1e6 * RTT_S / 8 / FRAME_BYTES
WINDOW_BYTES = 16 << 20
INITIAL_PACKETS = 10
TCP_REPAIR, TCP_REPAIR_WINDOW, REPAIR_OFF = 19, 29, -1
MB = 1_000_000
SIZES = (300_000, MB, 3 * MB)
WARM_BYTES = 8 * MB
ARMS = (
    *("cubic", "bbr", "vegas", "westwood", "hybla", "htcp", "veno", "yeah", "bic", "highspeed", "illinois"),
    *("ltp", "jury", "spine", "owl"),
)


def open_wide(receiver: socket.socket) -> None:
    """Offer a window of megabytes at once; Linux begins with 64 KB, and grows with what it receives.

    What a window has offered is never taken back, so a repaired connection goes on with it.
    """
    receiver.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    window = bytearray(receiver.getsockopt(socket.IPPROTO_TCP, TCP_REPAIR_WINDOW, 20))
    struct.pack_into("=I", window, 12, WINDOW_BYTES // 2)
    receiver.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_WINDOW, bytes(window))
    receiver.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF)


def sysctl(text: str) -> None:
    """Set it at both ends of the link."""
    for side in "ab":
        with namespace(f"l{side}"):
            sh(f"sysctl -qw {text}")


@contextmanager
def resuming(context: Context) -> Iterator[None]:
    """A long path with its bottleneck behind the sender's host, and Careful Resume on.

    A packet that is dropped in the sender's own queue is no loss for TCP.
    """
    tc("-n la qdisc del dev lva root")
    ip("link add lifb netns lb type ifb")
    ip("-n lb link set lifb up")
    tc("-n lb qdisc add dev lvb ingress")
    tc("-n lb filter add dev lvb parent ffff: matchall action mirred egress redirect dev lifb")
    sysctl(f"net.ipv4.tcp_rmem='4096 {WINDOW_BYTES // 2} {WINDOW_BYTES}'")
    sysctl(f"net.ipv4.tcp_wmem='4096 16384 {WINDOW_BYTES}'")
    shape()
    context.datapath.set_config(resume=ResumeMode.ON)
    try:
        yield
    finally:
        context.datapath.set_config(resume=ResumeMode.OFF, default_arm=context.arm_id("cubic"))
        tc("-n lb qdisc del dev lvb ingress")
        ip("-n lb link del lifb")
        context.link.shape()


def shape(rate_mbit: float = RATE_MBIT, delay_ms: int = DELAY_MS, also: str = "", queue: float = 1.0) -> None:
    """Set the path; its queue holds so many bandwidth-delay products beside what is under way."""
    product = rate_mbit * 1e6 * 2e-3 * delay_ms / 8 / FRAME_BYTES
    forth = f"delay {delay_ms}ms rate {rate_mbit}mbit limit {round(product * (0.5 + queue))} {also}"
    tc(f"-n lb qdisc replace dev lifb root netem {forth}")
    tc(f"-n lb qdisc replace dev lvb root netem delay {delay_ms}ms limit 10000")


@dataclass(frozen=True)
class Transfer:
    """What came of one flow."""

    seconds: float
    retransmits: int
    flags: FlowFlags
    packets: int

    @property
    def share(self) -> float:
        """Retransmitted packets of all that were needed."""
        return self.retransmits / self.packets


def begin(context: Context, size: int, arm: str = "mutant") -> Flow:
    """Connect and begin to send `size` bytes."""
    flow = context.link.connect(arm)
    open_wide(flow.server)
    flow.outstanding_bytes = WINDOW_BYTES
    flow.left_bytes = size
    context.traffic.add(flow)
    return flow


def flags(context: Context, flow: Flow) -> FlowFlags:
    """How the flow stands."""
    return FlowFlags(int(context.datapath.flow(flow.cookie).record[0]["flags"]))


def pump_to(context: Context, flow: Flow, flag: FlowFlags) -> bool:
    """Move data until the flow stands so; whether it came to be."""
    return context.traffic.pump(1, lambda: flag in flags(context, flow))


def transfer(context: Context, size: int, *, resume: bool = True) -> Transfer:
    """Send `size` bytes over a connection of its own; the time begins with its first SYN."""
    context.datapath.set_config(resume=ResumeMode.ON if resume else ResumeMode.OFF)
    started = time.monotonic()
    flow = begin(context, size)
    context.datapath.set_config(resume=ResumeMode.ON)
    require(context.traffic.pump(60, lambda: flow.received >= size), f"{flow.received} of {size} bytes")
    seconds = time.monotonic() - started
    context.traffic.pump(2 * RTT_S)
    done = Transfer(
        seconds, TcpInfo.of(flow.client).total_retrans, flags(context, flow), -(-size // PACKET_BYTES)
    )
    context.end(flow)
    return done


def warm(context: Context, rate_mbit: float = RATE_MBIT) -> None:
    """Let a flow see what the path carries; one that has jumped would save no more than it needed."""
    context.datapath.set_config(default_arm=context.arm_id("cubic"))
    shape(rate_mbit)
    transfer(context, WARM_BYTES)


@contextmanager
def counting(context: Context) -> Iterator[Callable[[], ResumeCounts]]:
    """What is counted from here on."""
    before = context.datapath.resume_counts()

    def since() -> ResumeCounts:
        now = context.datapath.resume_counts()
        return ResumeCounts(*(getattr(now, name) - getattr(before, name) for name in before.__slots__))

    yield since


def round_trips(packets: float, jump: float, product: float = BDP_PACKETS) -> float:
    """RTTs in which ideal slow start delivers them, a window of 10 and the handshake included.

    After the first window it jumps, if `jump` is more than it has; then it doubles up to the path's rate, of
    `product` packets in an RTT.
    """
    window, rtts = 10.0, 2.0
    packets -= window
    while packets > 0:
        window = min(2 * window, product)
        if rtts < 3:
            window = max(window, jump)
        rtts += min(1.0, packets / product) if packets <= window else 1.0
        packets -= window
    return rtts


def it_is_off_until_somebody_wants_it(context: Context) -> None:
    require(context.datapath.config().resume == ResumeMode.OFF, "on from the start")
    with resuming(context), counting(context) as counted:
        for _ in range(2):
            transfer(context, WARM_BYTES, resume=False)
        require(counted().jumps == 0, f"{counted()}")
        # What flows of before have seen is not known either.
        done = transfer(context, MB)
        require(counted().jumps == 0 and not done.flags & FlowFlags.RESUMED, f"{counted()}, {done}")


def a_second_flow_is_faster(context: Context) -> None:
    """At a bandwidth-delay product of 1 MB, with a receiver that does not limit."""
    told = {}
    with resuming(context):
        for size in SIZES:
            warm(context)
            fast, slow = transfer(context, size), transfer(context, size, resume=False)
            require(FlowFlags.RESUMED in fast.flags, f"{size}: {fast}")
            packets = size / PACKET_BYTES
            possible_s = RTT_S * (round_trips(packets, 0) - round_trips(packets, BDP_PACKETS / 2))
            told[size] = (
                *(fast.seconds, slow.seconds),
                *(fast.seconds / slow.seconds, (slow.seconds - fast.seconds) / possible_s),
            )
    context.notes["seconds with, without; ratio; share of the possible saving"] = told
    for size, (_, _, ratio, share) in told.items():
        require(ratio <= 0.7, f"{size} bytes take {ratio:.2f} of the time without: {told}")
        require(share >= 0.8, f"{size} bytes: {share:.2f} of the saving that is possible: {told}")


def every_arm_can_jump(context: Context) -> None:
    told = {}
    with resuming(context):
        for name in ARMS:
            warm(context)
            context.datapath.set_config(default_arm=context.arm_id(name))
            with counting(context) as counted:
                fast = transfer(context, MB)
                slow = transfer(context, MB, resume=False)
                require(counted().validated == counted().jumps == 1, f"{name}: {counted()}")
            told[name] = fast.seconds / slow.seconds
            require(fast.seconds < slow.seconds, f"{name}: {fast}, {slow}")
    context.notes["1 MB: time with, of the time without"] = told


def commands_wait_until_the_arm_has_the_window(context: Context) -> None:
    with resuming(context):
        for name in ("cubic", "ltp"):
            warm(context)
            context.datapath.set_config(default_arm=context.arm_id(name))
            flow = begin(context, 3 * MB)
            require(pump_to(context, flow, FlowFlags.JUMPING), f"{name} does not jump")
            window = TcpInfo.of(flow.client).snd_cwnd
            if name == "ltp":
                batch = control(flow.cookie, context.arm_id("ltp"), ControlLaw.WINDOW, [window // 2])
                require(context.datapath.control(batch).applied == 1, "the control is not taken")
            else:
                wanted = commands({flow.cookie: context.arm_id("vegas")})
                require(context.datapath.select(wanted).applied == 1, "the command is not taken")
            context.traffic.pump(RTT_S / 4)
            require(FlowFlags.JUMPING in flags(context, flow), "the jump is over already")
            require(flow.congestion == f"m/{name}", f"{flow.congestion} runs")
            require(TcpInfo.of(flow.client).snd_cwnd == window, "the control has acted")
            require(pump_to(context, flow, FlowFlags.RESUMED), f"{flags(context, flow)}")
            context.traffic.pump(RTT_S)
            if name == "cubic":
                require(flow.congestion == "m/vegas", f"{flow.congestion} runs")
            context.end(flow)


def watched(context: Context, flow: Flow) -> list[TcpInfo]:
    """How the flow stood at each tick from its jump until that is validated or taken back, or for 5 s."""
    seen = []

    def over() -> bool:
        seen.append(TcpInfo.of(flow.client))
        return FlowFlags.JUMPING not in flags(context, flow)

    require(pump_to(context, flow, FlowFlags.JUMPING), "no jump")
    require(context.traffic.pump(5, over), "the jump has no end")
    return seen


def recovery(context: Context, flow: Flow) -> tuple[bool, list[TcpInfo]]:
    """Whether the flow's recovery ended within 20 s, and how the flow stood at each tick of it."""
    seen: list[TcpInfo] = []

    def over() -> bool:
        seen.append(TcpInfo.of(flow.client))
        return seen[-1].ca_state < CA_RECOVERY

    return context.traffic.pump(20, over), seen


def a_loss_takes_it_back(context: Context) -> None:
    """On a path that carries a tenth, and has hardly a queue."""
    with resuming(context):
        for arm in ("cubic", "bbr", "ltp"):
            warm(context)
            context.datapath.set_config(default_arm=context.arm_id(arm))
            shape(RATE_MBIT // 10, queue=0.5)
            with counting(context) as counted:
                flow = begin(context, 3 * MB)
                jump = max(info.snd_cwnd for info in watched(context, flow))
                require(counted().retreats == 1, f"{arm}: {counted()}")
                recovered, later = recovery(context, flow)
                require(recovered, f"{arm}: the recovery has no end")
                # The first retransmission leaves under the old window, and the next ACK reduces it.
                windows = [info.snd_cwnd for info in later[2:-1]]
                require(len(windows) > 5 and windows == sorted(windows, reverse=True), f"{arm}: {windows}")
                require(windows[0] <= jump / 2, f"{arm}: from {jump} to {windows[0]}")
                context.traffic.pump(RTT_S / 4)
                after = TcpInfo.of(flow.client)
                require(after.snd_cwnd <= jump / 2, f"{arm}: {after}")
                if arm != "bbr":
                    require(after.ssthresh <= jump / 2, f"{arm}: {after}")
                context.traffic.abandon()
                # What was saved is deleted.
                shape()
                time.sleep(0.2)
                transfer(context, 300_000)
                require(counted().jumps == 1, f"{arm}: {counted()}")


def bbr_forgets_the_rates_of_a_retreat(context: Context) -> None:
    """It starts anew with an initial window, and its model begins with the first round trip after that."""
    with resuming(context):
        warm(context)
        context.datapath.set_config(default_arm=context.arm_id("bbr"))
        shape(RATE_MBIT // 10, queue=0.5)
        flow = begin(context, 3 * MB)
        watched(context, flow)
        require(FlowFlags.RETREATED in flags(context, flow), f"{flags(context, flow)}")
        recovered, seen = recovery(context, flow)
        require(recovered, "the recovery has no end")
        # The look that saw the end: after the next ACKs the window has grown again.
        told = bbr_bdp_packets(flow.client), seen[-1].snd_cwnd
        context.notes["BBR behind a retreat: product and window, packets"] = told
        require(max(told) <= INITIAL_PACKETS, f"{told}")
        context.traffic.abandon()


def a_mark_takes_it_back(context: Context) -> None:
    sysctl("net.ipv4.tcp_ecn=1")
    with resuming(context):
        warm(context)
        # The reconnaissance has to pass.
        flow = begin(context, 3 * MB)
        require(pump_to(context, flow, FlowFlags.JUMPING), "no jump")
        shape(also="loss 20% ecn")
        watched(context, flow)
        require(FlowFlags.RETREATED in flags(context, flow), f"{flags(context, flow)}")
        require(TcpInfo.of(flow.client).total_retrans == 0, "there was a loss, too")
        context.traffic.abandon()
    sysctl("net.ipv4.tcp_ecn=2")


def a_path_with_a_quarter_of_its_rate(context: Context) -> None:
    told = {}
    with resuming(context):
        for arm in ("cubic", "bbr"):
            warm(context)
            context.datapath.set_config(default_arm=context.arm_id(arm))
            shape(RATE_MBIT // 4)
            fast, slow = transfer(context, 3 * MB), transfer(context, 3 * MB, resume=False)
            told[arm] = (fast.seconds / slow.seconds, 100 * fast.share, 100 * slow.share, str(fast.flags))
    context.notes["a quarter of the rate: ratio of times, retransmits % with and without"] = told
    for arm, (_, with_it, without, _) in told.items():
        require(with_it <= without + 0.2, f"{arm} retransmits {with_it} % instead of {without} %: {told}")


def rival_mbit(context: Context, size: int, *, resume: bool) -> float:
    """What a plain Cubic flow that fills the path has, beside a flow of ours, in 4 s."""
    rival = begin(context, 1 << 40, "cubic")
    context.traffic.pump(5)
    context.datapath.set_config(resume=ResumeMode.ON if resume else ResumeMode.OFF)
    acked = TcpInfo.of(rival.client).bytes_acked
    if size:
        begin(context, size)
    context.traffic.pump(4)
    rate = (TcpInfo.of(rival.client).bytes_acked - acked) * 8 / 4e6
    context.traffic.abandon()
    time.sleep(0.5)
    context.datapath.set_config(resume=ResumeMode.ON)
    return rate


def a_rival_is_harmed_no_more(context: Context) -> None:
    """Harm: the share of its rate that a flow loses by another one (Ware et al., HotNets 2019)."""
    with resuming(context):
        warm(context)
        alone = rival_mbit(context, 0, resume=False)
        without = 1 - rival_mbit(context, 3 * MB, resume=False) / alone
        with counting(context) as counted:
            with_it = 1 - rival_mbit(context, 3 * MB, resume=True) / alone
            jumps = counted().jumps
    context.notes["harm to a Cubic flow that fills the path, with and without"] = (with_it, without)
    require(jumps == 1, f"{jumps} jumps")
    require(with_it <= without + 0.05, f"harm {with_it:.3f} instead of {without:.3f}")


def one_flow_at_a_time_jumps_and_none_beside_another(context: Context) -> None:
    with resuming(context):
        warm(context)
        with counting(context) as counted:
            both = [begin(context, 300_000) for _ in range(2)]
            require(context.traffic.pump(5, lambda: all(f.received == 300_000 for f in both)), "not all")
            require(counted().jumps <= 1, f"two flows: {counted()}")
            context.end(*both)
        warm(context)
        with counting(context) as counted:
            busy = begin(context, 1 << 40)
            require(pump_to(context, busy, FlowFlags.RESUMED), f"{flags(context, busy)}")
            jumped = counted().jumps
            other = begin(context, 300_000)
            require(context.traffic.pump(30, lambda: other.received == 300_000), "not all")
            require(counted().jumps == jumped, f"beside another: {counted()}")
            context.end(other)
            # One that is open and sends nothing does not count.
            busy.talking = False
            busy.left_bytes = 0
            require(context.traffic.pump(30, lambda: busy.received == busy.sent), "not all")
            context.traffic.pump(2 * RTT_S)
            # The two have shared the path, and have saved no more than a share of it.
            warm(context)
            jumped = counted().jumps
            transfer(context, 300_000)
            require(counted().jumps == jumped + 1, f"beside an idle one: {counted()}")
            context.end(busy)


def another_path_is_left_alone(context: Context) -> None:
    with resuming(context):
        warm(context)
        with counting(context) as counted:
            ip("-n lb address add 10.1.0.3/24 dev lvb")
            elsewhere, context.link.address = context.link.address, "10.1.0.3"
            transfer(context, 300_000)
            context.link.address = elsewhere
            require(counted().jumps == 0, f"another host: {counted()}")
            # Less than half of the RTT.
            shape(delay_ms=DELAY_MS // 3)
            transfer(context, 300_000)
            require(counted().jumps == 0, f"a shorter path: {counted()}")
            shape()
            # A loss in the reconnaissance.
            shape(also="loss 100%")
            flow = context.link.client("mutant")
            flow.setblocking(False)
            listener = context.link.listen()
            with suppress(BlockingIOError):
                flow.connect(listener.getsockname())
            time.sleep(0.5)
            shape()
            server, _ = listener.accept()
            open_wide(server)
            late = Flow(flow, server, left_bytes=MB, outstanding_bytes=WINDOW_BYTES)
            context.traffic.add(late)
            require(context.traffic.pump(10, lambda: late.received == MB), "not all")
            require(counted().jumps == 0, f"after a second SYN: {counted()}")
            context.end(late)
            transfer(context, 300_000)
            require(counted().jumps == 1, f"the path of before: {counted()}")


def a_cached_threshold_does_not_end_the_start(context: Context) -> None:
    sysctl("net.ipv4.tcp_no_ssthresh_metrics_save=0")
    threshold = round(BDP_PACKETS / 16)
    with resuming(context):
        warm(context)
        # The kernel caches a route's threshold too, and it is the same in every run.
        ip(f"-n la route add 10.1.0.2 dev lva ssthresh lock {threshold}")
        with namespace("la"):
            sh("ip tcp_metrics flush")
        # A flow's end makes the cache's entry.
        transfer(context, 10 * PACKET_BYTES, resume=False)
        before = context.datapath.resume_counts().validated
        flow = begin(context, MB)
        require(TcpInfo.of(flow.client).ssthresh == threshold, f"{TcpInfo.of(flow.client)}")
        require(context.traffic.pump(5, lambda: flow.received == MB), "not all")
        context.traffic.pump(2 * RTT_S)
        window = TcpInfo.of(flow.client).snd_cwnd
        require(context.datapath.resume_counts().validated == before + 1, "no jump")
        require(window >= BDP_PACKETS / 2, f"{window} packets")
        context.end(flow)
    sysctl("net.ipv4.tcp_no_ssthresh_metrics_save=1")
    ip("-n la route del 10.1.0.2 dev lva")
    with namespace("la"):
        sh("ip tcp_metrics flush", check=False)


def jumps_that_a_receiver_cuts_short_are_counted(context: Context) -> None:
    with resuming(context):
        warm(context)
        with counting(context) as counted:
            listener, client = context.link.listen(), context.link.client("mutant")
            # Kernels differ in how fast a buffer that the kernel sizes opens its window.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            client.connect(listener.getsockname())
            flow = Flow(client, listener.accept()[0], outstanding_bytes=WINDOW_BYTES, left_bytes=MB)
            listener.close()
            context.traffic.add(flow)
            require(context.traffic.pump(20, lambda: flow.received == MB), "not all")
            context.end(flow)
            require(counted().cut_by_receiver == 1 and counted().cut_by_buffer == 0, f"{counted()}")


def the_jump_is_half_of_what_was_saved_and_has_a_limit(context: Context) -> None:
    with resuming(context):
        for limit_kb in (1024, 128):
            warm(context)
            context.datapath.set_config(resume_max_jump_kb=limit_kb)
            flow = begin(context, 3 * MB)
            require(pump_to(context, flow, FlowFlags.JUMPING), "no jump")
            record = context.datapath.flow(flow.cookie).record[0]
            jump = int(record["snd_cwnd"])
            rate = jump * int(record["mss"]) * 1e6 / int(record["min_rtt_us"])
            require(
                abs(record["pacing_rate"] / rate - 1) < 0.01, f"{record['pacing_rate']} B/s, not {rate:.0f}"
            )
            # A quarter of a round trip later no more than so much of it has left.
            before = int(record["in_flight"])
            context.traffic.pump(RTT_S / 4)
            sent = int(context.datapath.flow(flow.cookie).record[0]["in_flight"]) - before
            require(jump / 8 <= sent <= 0.4 * jump, f"{sent} packets of {jump} within a quarter of the RTT")
            context.traffic.abandon()
            context.datapath.set_config(resume_max_jump_kb=1024)
            most = min(BDP_PACKETS / 2, limit_kb * 1024 / PACKET_BYTES)
            require(0.8 * most <= jump <= 1.05 * most, f"a jump to {jump} packets instead of {most:.0f}")


CHECKS = (
    it_is_off_until_somebody_wants_it,
    a_second_flow_is_faster,
    every_arm_can_jump,
    commands_wait_until_the_arm_has_the_window,
    a_loss_takes_it_back,
    bbr_forgets_the_rates_of_a_retreat,
    a_mark_takes_it_back,
    a_path_with_a_quarter_of_its_rate,
    a_rival_is_harmed_no_more,
    one_flow_at_a_time_jumps_and_none_beside_another,
    another_path_is_left_alone,
    a_cached_threshold_does_not_end_the_start,
    jumps_that_a_receiver_cuts_short_are_counted,
    the_jump_is_half_of_what_was_saved_and_has_a_limit,
)
