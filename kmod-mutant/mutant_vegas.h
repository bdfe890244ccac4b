/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Vegas takes the lowest RTT since its own start for the path's. Where it follows another arm, the
 * queue that this arm left is part of it, and Vegas keeps that queue and its own packets. The flow
 * knows the path's RTT floor, so Vegas is told. It hears no RTT in whole milliseconds, which was
 * rounded down: on a path of 4.4 ms it would take four packets of 43 for a queue. Its members are
 * known from `struct vegas`, the same from Linux 2.6.22 on; its get_info checks each write, and one
 * that it does not show is undone.
 */
#ifndef _MUTANT_VEGAS_H
#define _MUTANT_VEGAS_H

#include <net/tcp.h>

void mutant_vegas_set_floor(struct sock *sk, const struct tcp_congestion_ops *ops, u32 floor_us);

#endif /* _MUTANT_VEGAS_H */
