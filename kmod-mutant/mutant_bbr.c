// SPDX-License-Identifier: GPL-2.0-only
/* BBR's own state; mutant_bbr.h explains the whole. */
#include "compat.h"
#include "mutant_bbr.h"
#include "mutant_info.h"

/* The first members of `struct bbr`, the same from Linux 4.9 on. */
struct mutant_bbr {
	u32 min_rtt_us;
	u32 min_rtt_stamp;		/* jiffies */
	u32 probe_rtt_done_stamp;	/* jiffies; 0: ProbeRTT has not reached its window yet */
};

/* Whether BBR's first init left its members where struct mutant_bbr has them. */
static bool mutant_bbr_known;

/* Whether BBR is in Startup, the one state in which it paces at more than twice its estimate. */
bool mutant_bbr_starting(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	union tcp_cc_info info;

	return mutant_info(sk, ops, INET_DIAG_BBRINFO, &info) &&
	       info.bbr.bbr_pacing_gain > 2 * MUTANT_BBR_UNIT;
}

/*
 * Whether BBR holds the flow back to empty the queue. ProbeRTT is the one state with a window gain
 * of 1, and Drain the one with a pacing gain below a half.
 */
bool mutant_bbr_draining(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	union tcp_cc_info info;

	return mutant_info(sk, ops, INET_DIAG_BBRINFO, &info) &&
	       (info.bbr.bbr_cwnd_gain == MUTANT_BBR_UNIT ||
		info.bbr.bbr_pacing_gain < MUTANT_BBR_UNIT / 2);
}

/* The path's bandwidth-delay product as BBR models it, packets; 0 if it does not. */
u32 mutant_bbr_bdp(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	union tcp_cc_info info;
	u64 bdp;

	if (!mutant_info(sk, ops, INET_DIAG_BBRINFO, &info) || info.bbr.bbr_min_rtt == ~0U)
		return 0;
	bdp = ((u64)info.bbr.bbr_bw_hi << 32 | info.bbr.bbr_bw_lo) * info.bbr.bbr_min_rtt;
	bdp = div_u64(bdp, USEC_PER_SEC) / tcp_sk(sk)->mss_cache;
	return min_t(u64, bdp, TCP_INFINITE_SSTHRESH - 1);
}

/* BBR's init has just run on @sk: its members are known now. */
void mutant_bbr_started(struct sock *sk)
{
	const struct mutant_bbr *bbr = inet_csk_ca(sk);

	WRITE_ONCE(mutant_bbr_known, bbr->min_rtt_us == tcp_min_rtt(tcp_sk(sk)) &&
		   tcp_jiffies32 - bbr->min_rtt_stamp <= 1 && !bbr->probe_rtt_done_stamp);
}

/* The flow has measured the RTT floor, and so BBR needs no ProbeRTT now. */
void mutant_bbr_set_floor(struct sock *sk, u32 floor_us)
{
	struct mutant_bbr *bbr = inet_csk_ca(sk);

	if (!READ_ONCE(mutant_bbr_known))
		return;
	bbr->min_rtt_us = floor_us;
	bbr->min_rtt_stamp = tcp_jiffies32;
}

/*
 * BBR comes back after a time under other arms, which have measured the RTT floor. If BBR was
 * frozen in a ProbeRTT, it leaves it when it hears that the application was idle.
 */
void mutant_bbr_rebase(struct sock *sk, const struct tcp_congestion_ops *ops, u32 floor_us)
{
	struct mutant_bbr *bbr = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 app_limited = tp->app_limited;

	if (!READ_ONCE(mutant_bbr_known))
		return;
	mutant_bbr_set_floor(sk, floor_us);
	bbr->probe_rtt_done_stamp = (tcp_jiffies32 - 1) ?: 1;
	tp->app_limited = 1;
	mutant_call_tx_start(ops, sk);
	tp->app_limited = app_limited;
}
