/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writing a flow's step, and reading an ACK off its socket: what runs for every ACK.
 *
 * A step is written by whoever processes the flow's ACKs, under the socket's lock, and closed by
 * a netlink request, which must not take that lock: a process may own it for as long as it likes
 * (a page fault inside sendmsg is enough), and one such flow would hold up all the others. So the
 * flow has two buffers. The writer uses the one that `number` names; the closer adds one to
 * `number`, waits out a writer that may not have seen it (`seq` is odd while a step is written),
 * and then has the old buffer for itself: no sample is lost, none is counted twice.
 *
 *	writer				closer
 *	seq = odd			number = number + 1
 *	full barrier			full barrier
 *	read number			read seq; while odd and unchanged, wait
 *	write to that buffer		read the old buffer
 *	release: seq = even
 *
 * Either the writer sees the new number or the closer sees the odd seq.
 */
#ifndef _MUTANT_STEP_H
#define _MUTANT_STEP_H

#include <linux/preempt.h>

#include "mutant_core.h"

/* The step to write to. Preemption is off until mutant_step_end(), for a closer may be spinning. */
static __always_inline struct mutant_step *mutant_step_begin(struct mutant_flow *f)
{
	struct mutant_step *step;
	u32 number;

	preempt_disable();
	/* The odd seq before the number; pairs with the barrier of mutant_flow_close(). */
	smp_store_mb(f->seq, f->seq + 1);
	number = READ_ONCE(f->number);
	step = &f->step[number & 1];
	if (unlikely(step->number != number))
		mutant_step_open(step, &f->step[~number & 1], number);
	return step;
}

static __always_inline void mutant_step_end(struct mutant_flow *f)
{
	/* The step is complete when seq is even. */
	smp_store_release(&f->seq, f->seq + 1);
	preempt_enable();
}

/* What the socket says at an ACK whose RTT is @rtt_us, negative if it has none. */
static __always_inline void mutant_sample_read(const struct sock *sk, struct mutant_flow *f,
					       s64 rtt_us, struct mutant_sample *s)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	/* The rate is an average over the last round trip; one division per new sample. */
	if (f->rate_delivered != tp->rate_delivered ||
	    f->rate_interval_us != tp->rate_interval_us) {
		f->rate_delivered = tp->rate_delivered;
		f->rate_interval_us = tp->rate_interval_us;
		if (f->rate_interval_us)
			f->rate = (u64)f->rate_delivered * tp->mss_cache * USEC_PER_SEC /
				  f->rate_interval_us;
	}
	s->now_us = tp->tcp_mstamp;
	s->rtt_us = rtt_us;
	s->acked_bytes = tp->bytes_acked;
	s->rate = f->rate;
	s->pacing_rate = READ_ONCE(sk->sk_pacing_rate);
	s->delivered = tp->delivered;
	s->lost = tp->lost;
	s->retrans = tp->total_retrans;
	s->snd_cwnd = tcp_snd_cwnd(tp);
	s->ssthresh = tp->snd_ssthresh;
	s->srtt_us = tp->srtt_us >> 3;
	s->mdev_us = tp->mdev_us >> 2;
	s->min_rtt_us = tcp_min_rtt(tp);
	s->advmss = tp->advmss;
	s->mss = tp->mss_cache;
	s->in_flight = tcp_packets_in_flight(tp);
	s->lost_out = tp->lost_out;
	s->retrans_out = tp->retrans_out;
	s->flags = tp->rate_app_limited ? MUTANT_FLOW_FLAGS_APP_LIMITED : 0;
	s->ca_state = inet_csk(sk)->icsk_ca_state;
}

#endif /* _MUTANT_STEP_H */
