// SPDX-License-Identifier: GPL-2.0-only
/* Vegas's own state; mutant_vegas.h explains the whole. */
#include "mutant_info.h"
#include "mutant_vegas.h"

/* `struct vegas`, as far as its base RTT. */
struct mutant_vegas {
	u32 beg_snd_nxt;
	u32 beg_snd_una;
	u32 beg_snd_cwnd;
	u8 doing_vegas_now;
	u16 cnt_rtt;
	u32 min_rtt;
	u32 base_rtt;			/* µs, one more than the RTT was */
};

static u32 mutant_vegas_base(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	union tcp_cc_info info;

	return mutant_info(sk, ops, INET_DIAG_VEGASINFO, &info) ? info.vegas.tcpv_rtt : 0;
}

/* The path's RTT floor is @floor_us: all above it is a queue. */
void mutant_vegas_set_floor(struct sock *sk, const struct tcp_congestion_ops *ops, u32 floor_us)
{
	struct mutant_vegas *vegas = inet_csk_ca(sk);
	u32 before = vegas->base_rtt;

	if (mutant_vegas_base(sk, ops) != before)
		return;
	vegas->base_rtt = floor_us + 1;
	if (mutant_vegas_base(sk, ops) != floor_us + 1)
		vegas->base_rtt = before;
}
