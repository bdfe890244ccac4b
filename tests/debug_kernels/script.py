# SPDX-License-Identifier: Apache-2.0
"""The guest's script: one round, in phases that the kernel's log names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from support.module_lab import VETHS

WORKS: Final = ("namespaces", "options", "dumps", "steps")
CROWD: Final = "switches"
ASKED: Final = {"load": "cdg", "pin": "yeah", "set": "yeah", "sysfs": "yeah"}
"""How an arm can be asked for: `arm-load`, `pin`, `config-set`, or the parameter's file; and for which."""

ANSWERS: Final = (
    "stress", "stress-failing", CROWD, "fuzz", *WORKS, *(f"{work}-failing" for work in WORKS), "unload",
    *(f"unload-{kind}" for kind in ASKED),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Size:
    """How much a round does.

    Attributes:
        flows: that `stress` keeps open.
        switches: that it waits for.
        crowds: rounds of 128 flows each that switch all the time, some 7,000 times in all, eight at once.
        messages: of the fuzzer.
        churn: rounds of each of `WORKS` beside it.
        unloads: times that the module is unloaded under load, and once more under each of `ASKED`.
        failing: rounds of each with allocations that fail.
    """

    flows: int
    switches: int
    crowds: int
    messages: int
    churn: int
    unloads: int
    failing: int


def collected() -> list[str]:
    """Paths of the files that come back from the guest."""
    return [f"/tmp/{name}.json" for name in ANSWERS] + ["/tmp/leaks", "/tmp/slab"]  # noqa: S108


# A bottleneck that loses packets, so that arms meet losses; wide enough for many ACKs.
_LINK: Final = VETHS + "tc qdisc add dev va root netem rate 100mbit delay 5ms limit 1000 loss 0.3%\n"

_START: Final = f"""
mkdir -p /var && ln -sfn /run /var/run && export PATH
phase() {{ echo "<3>debug-phase: $1" >/dev/kmsg; lab-say "$1"; }}
{_LINK}load() {{ insmod /lib/mutant/tcp_mutant.ko "$@"; }}
unload() {{ # SECONDS
	i=0
	until rmmod tcp_mutant 2>/dev/null; do
		i=$((i + 1))
		[ $i -lt $((10 * $1)) ] || return 1
		sleep 0.1
	done
}}
"""

# Not each report ends in a panic. The script's own `wait` is not to wait for this.
_FIRST: Final = "((grep -qE 'BUG: |WARNING: ' /dev/kmsg; sleep 2; kill $$) &)\n"

# It stays off while the kernel boots, which would take minutes.
_KCSAN: Final = "echo on >/sys/kernel/debug/kcsan || exit 12\n"

# Where nobody listens to events, a flow is let go at once by whoever closes its socket.
_QUIET: Final = """
phase quiet
load watchdog_ms=0 || exit 1
for work in namespaces dumps; do
	churn $work {size.churn}0 {seed} >/dev/null &
done
wait
unload 60 || exit 9
"""

_STRESS: Final = """
phase stress
load watchdog_ms=0 || exit 1
churn load cdg || exit 2
for work in namespaces options dumps steps; do
	churn $work {size.churn} {seed} >/tmp/$work.json &
done
stress {size.flows} {size.switches} {seed} sink 10.2.0.2 >/tmp/stress.json || exit 3
wait
"""

_CROWDS: Final = """
phase switches
churn switches {size.crowds} {seed} 8 >/tmp/switches.json || exit 13
"""

# The module's own allocations fail wherever they are made, softirq included; all others in `churn` alone.
_FAILING: Final = """
phase failing
inject=/sys/kernel/debug/failslab
echo 0 >$inject/verbose && echo -1 >$inject/times && echo N >$inject/ignore-gfp-wait || exit 4
for cache in /sys/kernel/slab/mutant_*; do echo 1 >$cache/failslab || exit 4; done
echo Y >$inject/cache-filter && echo 20 >$inject/probability || exit 4
for work in namespaces options dumps steps; do
	churn $work {size.failing} 1{seed} >/tmp/$work-failing.json &
done
stress 64 {failing_switches} 1{seed} sink 10.2.0.2 >/tmp/stress-failing.json || exit 5
wait
# In this order: without a filter the script's own next command would fail.
echo 0 >$inject/probability && echo Y >$inject/task-filter || exit 4
echo N >$inject/cache-filter && echo 2 >$inject/probability || exit 4
for work in namespaces options dumps steps; do
	sh -c "echo 1 >/proc/self/make-it-fail; exec churn $work {size.failing} 2{seed}" >/dev/null 2>&1 &
done
wait
echo 0 >$inject/probability
"""

_FUZZ: Final = """
phase fuzz
churn namespaces {size.churn} 3{seed} >/dev/null &
nlfuzz {size.messages} {seed} >/tmp/fuzz.json || exit 6
wait
"""

# With a flow alive the kernel refuses; between two namespaces of `churn` there is a moment without one.
_UNLOAD: Final = """
phase unload
while [ ! -e /tmp/unloaded ]; do churn namespaces 1 4{seed}; done >/dev/null 2>&1 &
while [ ! -e /tmp/unloaded ]; do churn dumps 1 5{seed}; done >/dev/null 2>&1 &
tries=0
times=0
while [ $times -lt {size.unloads} ]; do
	tries=$((tries + 1))
	[ $tries -lt 10000 ] || exit 7
	sleep 0.01
	if rmmod tcp_mutant 2>/dev/null; then
		times=$((times + 1))
		load || exit 8
	fi
done
touch /tmp/unloaded
wait
echo "{{\\"tries\\": $tries, \\"times\\": $times}}" >/tmp/unload.json
"""

# The protocol appears while the module goes, so that an arm is found when others have been let go of.
_ASKED: Final = """
phase unload-{kind}
rm -f /tmp/unloaded
protocol=$(find /lib/modules/ -name 'tcp_{arm}.ko*')
mkdir -p /tmp/away
rmmod tcp_mutant || exit 14
churn ask {kind} {arm} /tmp/unloaded >/tmp/unload-{kind}.json &
times=0
while [ $times -lt {unloads} ]; do
	rmmod tcp_{arm} 2>/dev/null
	mv $protocol /tmp/away/
	load || exit 15
	(usleep $((times % 16 * 30000)); mv /tmp/away/$(basename $protocol) $protocol) &
	back=$!
	rmmod tcp_mutant || exit 16
	wait $back
	times=$((times + 1))
	[ $((times % 50)) -ne 0 ] || lab-say "{kind}: unloaded $times times"
done
touch /tmp/unloaded
wait
# A clone that outlived the module is met here at the latest.
cat /proc/sys/net/ipv4/tcp_available_congestion_control
load || exit 17
"""

_LEAKS: Final = """
phase leaks
sleep 6
echo scan >/sys/kernel/debug/kmemleak && sleep 6 && echo scan >/sys/kernel/debug/kmemleak || exit 10
"""

_END: Final = """
phase end
sleep 2
# Without this the allocator keeps empty slabs, and counts their objects as active.
for cache in /sys/kernel/slab/mutant_*; do echo 1 >$cache/shrink; done
grep ^mutant_ /proc/slabinfo >/tmp/slab
unload 60 || exit 9
"""


_LEAKS_END: Final = """
sleep 6
echo scan >/sys/kernel/debug/kmemleak && sleep 1 && cat /sys/kernel/debug/kmemleak >/tmp/leaks || exit 11
"""


def unloads(times: int) -> str:
    """Return a script that unloads the module so often under each kind of request, and does nothing else."""
    asked = "".join(_ASKED.format(kind=kind, arm=arm, unloads=times) for kind, arm in ASKED.items())
    return f"{_START}load || exit 1\n{asked}{_END}"


def script(size: Size, flavour: str, seed: int, *, planted: bool = False) -> str:
    """Return the script of a round for a kernel of this flavour; what the flavour lacks is left out.

    With a fault planted, the phases that need it not are left out too, and the first report ends the round.
    """
    leaks, poisons = flavour == "kmemleak", flavour == "kasan"
    parts = [_FIRST] * planted + [_KCSAN] * (flavour == "kcsan") + [_QUIET] * poisons + [_STRESS]
    if not planted:
        parts += [_CROWDS] + [_FAILING] * (poisons or leaks) + [_FUZZ, _UNLOAD]
    failing_switches = max(size.switches // 20, 200)
    begun = _START + "".join(
        part.format(size=size, seed=seed, failing_switches=failing_switches) for part in parts
    )
    kinds = {} if planted else ASKED
    asked = "".join(_ASKED.format(kind=kind, arm=arm, unloads=size.unloads) for kind, arm in kinds.items())
    return begun + asked + "".join([_LEAKS] * leaks + [_END] + [_LEAKS_END] * leaks)
