/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBR's own state is known from its get_info, and from the first members of `struct bbr`, which
 * tcp_bbr.c keeps to itself. Their places are checked on BBR's first init, and nothing is written
 * where they are not as expected.
 */
#ifndef _MUTANT_BBR_H
#define _MUTANT_BBR_H

#include <net/tcp.h>

#define MUTANT_BBR_UNIT		256	/* a gain of 1 */

bool mutant_bbr_draining(struct sock *sk, const struct tcp_congestion_ops *ops);
bool mutant_bbr_starting(struct sock *sk, const struct tcp_congestion_ops *ops);
u32 mutant_bbr_bdp(struct sock *sk, const struct tcp_congestion_ops *ops);
void mutant_bbr_started(struct sock *sk);
void mutant_bbr_set_floor(struct sock *sk, u32 floor_us);
void mutant_bbr_rebase(struct sock *sk, const struct tcp_congestion_ops *ops, u32 floor_us);

#endif /* _MUTANT_BBR_H */
