# SPDX-License-Identifier: Apache-2.0
"""Each kind of report is found in a console, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from debug_kernels.console import complaints

REPORTS = {
    "KASAN": "BUG: KASAN: slab-use-after-free in mutant_flow_peek+0x1c/0x90 [tcp_mutant]",
    "UBSAN": "UBSAN: shift-out-of-bounds in net/ipv4/tcp_bic.c:95:3",
    "kmemleak": "unreferenced object 0xffff888003a1b000 (size 64):",
    "sleep": "BUG: sleeping function called from invalid context at include/linux/sched/mm.h:337",
    "locks": "WARNING: possible circular locking dependency detected",
    "RCU": "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "objects": "ODEBUG: activate active (active state 1) object: 0000000012345678 object type: rcu_head",
    "slab": "BUG mutant_slot (Tainted: G           O      ): Objects remaining on __kmem_cache_shutdown()",
    "oops": "general protection fault, probably for non-canonical address 0xdffffc0000000000: 0000 [#1]",
    "hang": "unregister_netdevice: waiting for lo to become free. Usage count = 2",
    "list": "list_add corruption. next->prev should be prev",
    "WARN": "WARNING: CPU: 2 PID: 71 at net/ipv4/tcp_input.c:1234 tcp_ack+0x10/0x20",
}


@pytest.mark.parametrize("kind", REPORTS)
def test_report_is_found_with_its_phase(kind: str) -> None:
    before = "[    2.100000] debug-phase: stress\n[    3.1][   T71] nothing\n"
    console = f"{before}[    3.200000][   C1] {REPORTS[kind]}\n"
    (found,) = complaints(console)
    assert (found.kind, found.title, found.phase, found.counted) == (kind, REPORTS[kind], "stress", True)


def test_quiet_console_has_no_report() -> None:
    quiet = (
        "[    1.0] tcp_mutant: 11 of 11 kernel arms available\n"
        "[    1.1] tcp_mutant: loading out-of-tree module taints kernel.\n"
        "[    1.2] TCP: lo: Driver has suspect GRO implementation, TCP performance may be compromised.\n"
        "[    1.3] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)\n"
    )
    assert complaints(quiet) == []


@pytest.mark.parametrize(
    ("functions", "counted"),
    [
        ("tcp_ack / tcp_poll", False),
        ("tcp_ack / mutant_flow_peek [tcp_mutant]", True),
        ("mutant_step_read [tcp_mutant] / tcp_ack", True),
        ("mutant_fold [tcp_mutant]", True),
    ],
)
def test_race_counts_if_the_module_has_a_part_in_it(functions: str, counted: bool) -> None:
    (found,) = complaints(f"[    9.0] BUG: KCSAN: data-race in {functions}\n")
    assert found.counted is counted
